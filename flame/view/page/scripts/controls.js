const KEYS = [
  ['← ↑ ↓ →', 'move among frames, or rows'],
  ['Enter, right click', 'menu: zoom, callers and callees, focus, hide, copy'],
  ['Space, click', 'zoom to a frame'],
  ['Esc', 'end the search, or go back'],
  ['/', 'search'],
  ['n, N', 'next and previous match'],
  ['i', 'root above or below'],
  ['t', 'only the table, and back'],
  ['d', 'dark or light'],
  ['?', 'these keys'],
];

// helpDialog returns a dialog with the keys.
function helpDialog() {
  const close = element('button', { type: 'button' }, 'Close');
  const dialog = element(
    'dialog',
    { id: 'help', 'aria-labelledby': 'help-heading' },
    element('h2', { id: 'help-heading' }, 'Keys'),
    element('dl', {}, ...KEYS.flatMap(([key, text]) => [element('dt', {}, key), element('dd', {}, text)])),
    close,
  );
  close.addEventListener('click', () => dialog.close());
  return dialog;
}

// Theme is light or dark: the browser's preference, until the user chooses.
class Theme {
  constructor() {
    this.media = matchMedia('(prefers-color-scheme: dark)');
    this.preference = new Preference('theme');
    const theme = this.preference.get();
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  }

  get dark() {
    const { theme } = document.documentElement.dataset;
    return theme ? theme === 'dark' : this.media.matches;
  }

  turn() {
    const theme = this.dark ? 'light' : 'dark';
    document.documentElement.dataset.theme = theme;
    this.preference.set(theme);
  }
}

function select(id, label, options) {
  const field = element(
    'select',
    { id },
    ...Object.entries(options).map(([value, text]) => element('option', { value }, text)),
  );
  return { field, element: element('label', { for: id, class: 'choice' }, element('span', {}, label), field) };
}

// Controls are the bar above the views, with modes, search, colours and order; the legend; and the path to the current
// node.
class Controls {
  // view has apply(changes), state and the actions of the buttons.
  constructor(view) {
    this.view = view;
    this.search = element('input', {
      type: 'search',
      id: 'search',
      placeholder: 'Search',
      autocomplete: 'off',
      spellcheck: 'false',
      'aria-keyshortcuts': '/',
    });
    this.found = element('output', { id: 'found', for: 'search' });
    this.reset = this.button('reset', 'Show all', () => view.showAll());
    this.reset.hidden = true;
    this.modes = element(
      'div',
      { class: 'modes', role: 'group', 'aria-label': 'View' },
      ...Object.entries(MODES).map(([mode, label]) => {
        const button = this.button('', label, () => view.showMode(mode));
        button.dataset.mode = mode;
        return button;
      }),
    );
    const colors = { origin: 'origin', binary: 'binary', package: 'package', change: 'change' };
    const names = Object.keys(view.subject.colourings);
    this.color = select('color', 'Colours', Object.fromEntries(names.map((name) => [name, colors[name]])));
    this.color.element.hidden = names.length === 1;
    this.order = select('order', 'Order', { size: 'size', name: 'name' });
    this.up = this.button('up', 'Root below', () => view.turnUp());
    this.legend = element('ul', { class: 'legend' });
    this.filters = element('ul', { class: 'filters', 'aria-label': 'Filters' });
    this.crumbs = element('ol', { class: 'crumbs' });
    this.way = element('nav', { 'aria-label': 'Zoomed to' }, this.crumbs);
    this.listen();
  }

  button(id, text, act) {
    const button = element('button', { type: 'button', id: id || false }, text);
    button.addEventListener('click', act);
    return button;
  }

  listen() {
    const { view } = this;
    this.search.addEventListener('input', () => view.apply({ search: this.search.value.trim() }));
    this.color.field.addEventListener('change', () => view.apply({ color: this.color.field.value, only: '' }));
    this.order.field.addEventListener('change', () => view.apply({ order: this.order.field.value }));
  }

  // elements returns the parts, in their order on the page.
  elements() {
    const { view } = this;
    return [
      element(
        'div',
        { class: 'tools' },
        this.modes,
        element('label', { for: 'search', class: 'hidden' }, 'Search functions, files and binaries'),
        this.search,
        this.found,
        element(
          'span',
          { class: 'right' },
          this.color.element,
          this.order.element,
          this.up,
          this.button('dark', 'Dark', () => view.turnTheme()),
          this.button('link', 'Copy link', () => view.copyLink()),
          this.button('keys-button', 'Keys', () => view.help.showModal()),
        ),
      ),
      this.legend,
      element('div', { class: 'way' }, this.filters, this.way, this.reset),
    ];
  }

  // update shows the state.
  update() {
    const { state, mode } = this.view;
    for (const button of this.modes.children) button.setAttribute('aria-pressed', String(button.dataset.mode === mode));
    if (this.search.value.trim() !== state.search) this.search.value = state.search;
    this.color.field.value = this.view.color;
    this.order.field.value = state.order || 'size';
    this.up.setAttribute('aria-pressed', String(state.up !== ''));
    this.reset.hidden = !state.zoom && !state.focus.length && !state.hide.length;
  }

  // fillLegend lists groups with their share of self. A click on a group highlights only this group.
  fillLegend(colouring, sums, total) {
    const { view } = this;
    this.legend.setAttribute('aria-label', colouring.title);
    this.legend.replaceChildren();
    colouring.groups.forEach((group, i) => {
      if (!group.listed || (!group.bare && !sums.total[i])) return;
      const mark = { 'data-group': group.key, [group.bare ? 'data-shade' : 'data-kind']: group.key };
      const swatch = element('span', { class: 'swatch' + (group.hatched ? ' hatched' : ''), ...mark });
      swatch.style.setProperty('--swatch', 'var(--' + group.color + ')');
      const button = element(
        'button',
        { type: 'button', ...mark, 'aria-pressed': String(view.state.only === group.key) },
        swatch,
        group.label,
      );
      if (!group.bare) {
        button.title =
          percent(sums.self[i], total) + ' end in such a frame, ' + percent(sums.total[i], total) + ' have one';
        button.append(' ', element('span', { class: 'share' }, percent(sums.self[i], total)));
      }
      button.addEventListener('click', () => view.apply({ only: view.state.only === group.key ? '' : group.key }));
      this.legend.append(element('li', {}, button));
    });
  }

  // fillFilters lists the focused and the hidden functions, each with a button that removes the filter.
  fillFilters(total, all) {
    const { state } = this.view;
    const items = [
      ['focus', 'only stacks through '],
      ['hide', 'without '],
    ].flatMap(([key, text]) =>
      state[key].map((label) => {
        const button = this.button('', '×', () =>
          this.view.apply({ [key]: state[key].filter((l) => l !== label) }, true),
        );
        button.setAttribute('aria-label', 'Remove filter: ' + text + label);
        return element('li', { title: label }, text, element('strong', {}, shorten(label)), ' ', button);
      }),
    );
    if (state.focus.length) items.push(element('li', { class: 'share' }, percent(total, all) + ' of all'));
    this.filters.replaceChildren(...items);
    this.filters.hidden = items.length === 0;
  }

  // fillCrumbs shows the path from the root to the zoomed node.
  fillCrumbs(chart) {
    const { tree, zoomed } = chart;
    const way = tree.ancestors(zoomed);
    const shown = way.length > 6 ? [way[0], -1, ...way.slice(-4)] : way;
    this.crumbs.replaceChildren(
      ...shown.map((node) => {
        if (node < 0) return element('li', {}, '…');
        const name = tree.name(node);
        const button = this.button('', shorten(name), () => this.view.zoomTo(chart, node));
        button.title = name;
        if (node === zoomed) button.setAttribute('aria-current', 'true');
        return element('li', {}, button);
      }),
    );
  }
}
