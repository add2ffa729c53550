// Lines is a dialog with the lines of a function. The lines with most samples have the strongest colour. The server of
// the page has the lines, and their text if it has the file.
class Lines {
  constructor(view) {
    this.view = view;
    this.heading = element('h2', { id: 'lines-heading' });
    this.said = element('p', { class: 'said', role: 'status' });
    this.body = element('tbody');
    const heads = ['Line', 'Self', 'Total', 'Source'].map((text) => element('th', { scope: 'col' }, text));
    const close = element('button', { type: 'button' }, 'Close');
    this.element = element(
      'dialog',
      { id: 'lines', 'aria-labelledby': 'lines-heading' },
      this.heading,
      this.said,
      element(
        'div',
        { class: 'scroll', tabindex: '0', role: 'region', 'aria-labelledby': 'lines-heading' },
        element('table', {}, element('thead', {}, element('tr', {}, ...heads)), this.body),
      ),
      close,
    );
    close.addEventListener('click', () => this.element.close());
  }

  // canShow reports whether a server has the lines of a function.
  canShow(fn) {
    const { profile, root } = this.view;
    const kind = profile.kind(profile.first[fn]);
    return Boolean(root.dataset.lines) && kind !== 'unnamed' && kind !== 'other' && kind !== 'small';
  }

  async show(fn) {
    const { profile, root } = this.view;
    const of = { function: profile.name(fn), binary: profile.binary(profile.first[fn]) };
    this.heading.replaceChildren(shorten(of.function));
    this.said.textContent = 'Loading…';
    this.body.replaceChildren();
    this.element.showModal();
    try {
      const answer = await fetch(root.dataset.lines + '&' + new URLSearchParams(of));
      const data = await answer.json();
      if (!answer.ok) throw new Error(data.error);
      this.fill(data);
    } catch (error) {
      this.said.textContent = 'The lines cannot be shown: ' + error.message + '.';
    }
  }

  fill({ lines, all, source }) {
    const files = [...new Set(lines.map((line) => line.file || 'an unknown file'))];
    const filters = this.view.exact.holds ? '' : ' Filters of the view do not apply here.';
    this.said.textContent = files.join(', ') + filters;
    const hottest = Math.max(...lines.map((line) => line.self || line.total), 1);
    const known = new Map(lines.map((line) => [line.file + ':' + line.line, line]));
    const rows = source
      ? source.text.map((text, i) => [source.from + i, known.get(source.file + ':' + (source.from + i)), text])
      : lines.map((line) => [line.line, line, '']);
    this.body.replaceChildren(...rows.map(([number, line, text]) => this.row(number, line, text, all, hottest)));
    const hot = this.body.querySelector('.hottest');
    if (hot) hot.scrollIntoView({ block: 'center' });
  }

  row(number, line, text, all, hottest) {
    const heat = line ? line.self / hottest : 0;
    const amount = (value) => element('td', { class: 'n' }, value ? percent(value, all) : '');
    const row = element(
      'tr',
      { class: heat === 1 ? 'hottest' : false },
      element('th', { scope: 'row', class: 'n' }, number ? String(number) : 'not known'),
      amount(line && line.self),
      amount(line && line.total),
      element('td', { class: 'source' }, text),
    );
    row.style.setProperty('--heat', (heat * 100).toFixed(0) + '%');
    return row;
  }
}
