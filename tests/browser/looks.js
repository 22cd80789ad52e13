// What is wrong with how a page looks: a list of sentences, empty where nothing is.
() => {
  const LEAST = 4.5, SLACK = 1.5; // contrast [1]; a border and a rounded half pixel [px]
  const wrong = [];
  const words = (one) => `${one.tagName.toLowerCase()}.${one.getAttribute("class") ?? ""}`;
  const shown = (one) => {
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    return style.visibility === "visible" && style.display !== "none" && box.width * box.height > 0;
  };
  const sheet = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const colour = (text) => {
    if (!known.has(text)) {
      sheet.clearRect(0, 0, 1, 1);
      sheet.fillStyle = text;
      sheet.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = sheet.getImageData(0, 0, 1, 1).data;
      known.set(text, [r, g, b, a / 255]);
    }
    return known.get(text);
  };
  const over = (top, share, below) => [0, 1, 2].map((i) => share * top[i] + (1 - share) * below[i]);
  const opacity = (one) => (one ? Number(getComputedStyle(one).opacity) * opacity(one.parentElement) : 1);
  const ground = (one) => {
    if (!one) return [255, 255, 255];
    const own = colour(getComputedStyle(one).backgroundColor);
    return own[3] === 1 ? own : over(own, own[3], ground(one.parentElement));
  };
  const paints = "rect, circle, path, polygon, ellipse";
  const shapes = new Map();
  const behind = (text, root) => {
    if (!shapes.has(root)) {
      const all = [...root.querySelectorAll(paints)].filter((one) => {
        const style = getComputedStyle(one);
        return style.fill !== "none" && colour(style.fill)[3] * style.fillOpacity > 0 && shown(one);
      });
      shapes.set(root, all.map((one) => [one, one.getBoundingClientRect()]));
    }
    const box = text.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    let found = ground(root.closest(".chart") ?? root.parentElement);
    for (const [one, place] of shapes.get(root)) {
      if (!(one.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
      if (place.left > x || place.right < x || place.top > y || place.bottom < y) continue;
      const at = new DOMPoint(x, y).matrixTransform(one.getScreenCTM().inverse());
      if (!one.isPointInFill(at)) continue;
      const style = getComputedStyle(one), fill = colour(style.fill);
      found = over(fill, fill[3] * style.fillOpacity * opacity(one), found);
    }
    return found;
  };
  const light = (c) => {
    const [r, g, b] = c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, two) => {
    const [high, low] = [light(one), light(two)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };

  // Text stands out from what is behind it.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = new Set();
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    const silent = ["SCRIPT", "STYLE", "NOSCRIPT", "TITLE"].includes(one.tagName);
    if (walker.currentNode.data.trim() && !silent && shown(one)) texts.add(one);
  }
  for (const one of texts) {
    const style = getComputedStyle(one), drawn = one.closest("svg");
    let below = drawn ? behind(one, one.closest(".chart") ?? drawn) : ground(one);
    const halo = drawn && style.paintOrder.startsWith("stroke") && style.stroke !== "none";
    if (halo) below = over(colour(style.stroke), colour(style.stroke)[3], below);
    const ink = colour(drawn ? style.fill : style.color);
    const seen = over(ink, ink[3] * opacity(one), below);
    const ratio = contrast(seen, below);
    if (ratio < LEAST) {
      wrong.push(`contrast ${ratio.toFixed(2)}: ${words(one)} '${one.textContent.trim().slice(0, 40)}'`);
    }
  }

  // Words stand beside each other, not sign below sign.
  for (const one of texts) {
    const text = one.textContent.trim(), size = Number.parseFloat(getComputedStyle(one).fontSize);
    if (!one.closest("svg") && text.length > 3 && one.getBoundingClientRect().width < 1.5 * size) {
      wrong.push(`squeezed: ${words(one)} '${text.slice(0, 40)}'`);
    }
  }

  // Nothing is wider than the page, no text of a chart is cut, tables and drawings scroll in themselves.
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) wrong.push("the page scrolls sideways");
  for (const one of texts) {
    const scroller = one.closest(".scroll"), chart = one.closest(".chart");
    const edge = (chart ?? document.documentElement).getBoundingClientRect();
    const box = one.getBoundingClientRect();
    if (!scroller && (box.right > edge.right + SLACK || box.left < edge.left - SLACK)) {
      wrong.push(`cut: ${words(one)} '${one.textContent.trim().slice(0, 40)}'`);
    }
  }

  // Everything that is not text has a name, and what scrolls can be focused.
  const named = (one) => {
    const by = one.getAttribute("aria-labelledby");
    const said = by ? document.getElementById(by)?.textContent : one.getAttribute("aria-label");
    return Boolean((said ?? one.querySelector("caption")?.textContent ?? "").trim());
  };
  for (const one of document.querySelectorAll("table, .chart, svg.drawing, [role=img], [role=region], nav")) {
    if (!named(one)) wrong.push(`no name: ${words(one)}`);
  }
  for (const one of document.querySelectorAll("[tabindex]")) {
    if (!one.closest("svg") && (!one.getAttribute("role") || !named(one))) {
      wrong.push(`focused without role or name: ${words(one)}`);
    }
  }
  for (const one of document.querySelectorAll("body *")) {
    const style = getComputedStyle(one);
    const moves =
      (one.scrollWidth > one.clientWidth + 1 && ["auto", "scroll"].includes(style.overflowX)) ||
      (one.scrollHeight > one.clientHeight + 1 && ["auto", "scroll"].includes(style.overflowY));
    if (moves && one.tabIndex < 0) wrong.push(`scrolls by mouse alone: ${words(one)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].filter((one) => !one.closest("svg")).map((one) => one.id);
  for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) wrong.push(`id twice: ${id}`);
  return [...new Set(wrong)];
}
