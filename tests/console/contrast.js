// Texts of a page that do not stand out enough from what is behind them, by WCAG AA.
() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = text => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = element => { for (let at = element; at; at = at.parentElement) { const found = rgba(getComputedStyle(at).backgroundColor); if (found[3] > 250) return found; } return [255, 255, 255, 255]; };
  const wrong = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(each => each.nodeType === 3 && each.textContent.trim());
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    if (!own || !box.width || style.visibility === 'hidden' || element.disabled || style.color === 'rgba(0, 0, 0, 0)' || element.closest('option, datalist, textarea, [hidden], .skip')) continue;
    const inDrawing = element instanceof SVGElement;
    let back = behind(element);
    if (inDrawing) { const box = element.parentElement.querySelector(':scope > rect'); if (element.closest('.node') && box) back = rgba(getComputedStyle(box).fill); }
    const face = rgba(inDrawing ? style.fill : style.color);
    const [a, b] = [light(face), light(back)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) wrong.push(`${element.tagName} ${element.className.baseVal ?? element.className} '${element.textContent.trim().slice(0, 30)}' ${ratio.toFixed(2)}`);
  }
  return wrong;
}
