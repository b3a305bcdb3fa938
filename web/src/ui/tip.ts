/** One tooltip for the page: shown for every element with `data-tip`, on hover and on focus; Escape hides it. */
export function installTips() {
  let shown: { target: Element; tip: HTMLElement } | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const hide = () => {
    clearTimeout(timer);
    shown?.tip.remove();
    shown?.target.removeAttribute("aria-describedby");
    shown = undefined;
  };
  const show = (target: Element) => {
    hide();
    const text = target.getAttribute("data-tip");
    if (!text || !target.isConnected) return;
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.id = "tip";
    tip.role = "tooltip";
    tip.textContent = text;
    // A modal dialog covers everything outside of it.
    (target.closest("dialog") ?? document.body).append(tip);
    const place = target.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    const left = Math.max(4, Math.min(place.left, window.innerWidth - own.width - 4));
    const below = place.bottom + 4 + own.height < window.innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? place.bottom + 4 : place.top - own.height - 4}px`;
    target.setAttribute("aria-describedby", "tip");
    shown = { target, tip };
  };
  const of = (event: Event) => (event.target instanceof Element ? event.target.closest("[data-tip]") : null);

  document.addEventListener("pointerover", (event) => {
    const target = of(event);
    if (target === shown?.target) return;
    hide();
    if (target && event.pointerType !== "touch") timer = setTimeout(() => show(target), 350);
  });
  document.addEventListener("click", (event) => {
    const target = of(event);
    if (target?.localName === "time") show(target);
    else hide();
  });
  document.addEventListener("focusin", (event) => {
    const target = of(event);
    if (target?.matches(":focus-visible")) show(target);
    else hide();
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
}
