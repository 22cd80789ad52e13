"""Papers and designs against netplan."""
