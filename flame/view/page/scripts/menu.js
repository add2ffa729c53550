// Menu is the menu that a right click or Enter opens. It has the focus while it is open, and then returns it.
class Menu {
  constructor() {
    this.element = element('div', {
      id: 'menu',
      role: 'menu',
      'aria-label': 'Actions for the function',
      hidden: true,
    });
    this.element.addEventListener('keydown', (event) => this.key(event));
    document.addEventListener('pointerdown', (event) => {
      if (!this.element.contains(event.target)) this.close(false);
    });
  }

  // open shows items, pairs of a text and an action, at a point of the window.
  open(title, items, x, y) {
    this.from = document.activeElement;
    this.element.replaceChildren(
      element('div', { class: 'title', role: 'presentation' }, shorten(title)),
      ...items.map(([text, act]) => {
        const item = element('button', { type: 'button', role: 'menuitem', tabindex: '-1' }, text);
        item.addEventListener('click', () => {
          this.close(true);
          act();
        });
        return item;
      }),
    );
    this.element.hidden = false;
    const { offsetWidth, offsetHeight } = this.element;
    const page = document.documentElement;
    this.element.style.left = Math.max(4, Math.min(x, page.clientWidth - offsetWidth - 6)) + 'px';
    this.element.style.top = Math.max(4, Math.min(y, page.clientHeight - offsetHeight - 6)) + 'px';
    this.items()[0].focus();
  }

  items() {
    return Array.from(this.element.querySelectorAll('[role=menuitem]'));
  }

  get isOpen() {
    return !this.element.hidden;
  }

  close(giveBack) {
    if (!this.isOpen) return;
    this.element.hidden = true;
    if (giveBack && this.from && this.from.isConnected) this.from.focus({ preventScroll: true });
  }

  key(event) {
    const items = this.items();
    const at = items.indexOf(document.activeElement);
    const to = {
      ArrowDown: (at + 1) % items.length,
      ArrowUp: (at + items.length - 1) % items.length,
      Home: 0,
      End: items.length - 1,
    }[event.key];
    if (to !== undefined) items[to].focus();
    else if (event.key === 'Escape' || event.key === 'Tab') this.close(true);
    else if (event.key === 'Enter' || event.key === ' ') document.activeElement.click();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

// copy puts a text on the clipboard. Pages without TLS only have the old method.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return;
  } catch (error) {
    // Try the old method.
  }
  const from = document.activeElement;
  const field = element('textarea', { class: 'hidden', 'aria-hidden': 'true' });
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand('copy');
  field.remove();
  if (from) from.focus({ preventScroll: true });
}
