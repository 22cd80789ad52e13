"""How long the operations of a served model take: as kernels were measured, or by a roofline.

``measured`` kernels are those of `netplan.workloads.kernels`: products with their table of
corrections, attention of prompts and of generated tokens, fused experts; operations without
products wait 2 us and for their bytes. ``roofline`` takes the longer of FLOPs at the peak and of
bytes at the memory's bandwidth, which is DFModel's form (arXiv:2412.16432, Sec. VIII).

Times never fall with the rows of a product: where a table of corrections dips, what fewer rows took
counts.
"""

from typing import Literal

import numpy as np
from msgspec import Struct

from netplan.arrays import Amount
from netplan.records import replace
from netplan.workloads.accelerators import Accelerator
from netplan.workloads.corrections import corrections_of
from netplan.workloads.kernels import fused_experts_time_s, product_time_s
from netplan.workloads.measured_attention import (
    attention_rates,
    attention_time_of,
)
from netplan.workloads.measured_products import product_parts_s, product_rates
from netplan.workloads.measured_rates import pooled
from netplan.workloads.operations import Operation
from netplan.workloads.precision import NUMBER_BYTES, Precision
