// element returns a new HTML element with attributes and children.
function element(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== false) e.setAttribute(key, value === true ? '' : value);
  }
  e.append(...children);
  return e;
}

// percent returns a share as text. Only the whole is shown as 100 %, and only zero as 0 %.
function percent(part, whole) {
  const p = whole ? (part / whole) * 100 : 0;
  if (p > 0 && p < 0.1) return '<0.1 %';
  return (p < 100 && p > 99.9 ? 99.9 : p).toFixed(1) + ' %';
}

const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ',');

// base returns the last part of a path.
const base = (path) => path.slice(path.lastIndexOf('/') + 1) || path;

// shorten leaves out the template arguments of a C++ or Rust name, and its parameters:
// std::map<int, int>::operator[](int const&) becomes std::map<..>::operator[](..).
function shorten(name) {
  let out = '';
  let called = false; // out ends in an operator's name
  for (let i = 0; i < name.length;) {
    const operator = name[i] === 'o' && /^operator\s*(\(\)|[<>=!+\-*\/%^&|~\[\],]+)/.exec(name.slice(i, i + 20));
    if (operator && !/\w$/.test(out)) {
      out += operator[0];
      i += operator[0].length;
      called = true;
      continue;
    }
    const open = name[i];
    if ((open === '<' && /\w$/.test(out)) || (open === '(' && (called || /[\w>\]]$/.test(out)))) {
      const end = closing(name, i);
      if (end > i + 1) {
        out += open + '..' + name[end];
        i = end + 1;
        continue;
      }
    }
    out += open;
    called = false;
    i++;
  }
  return out;
}

// closing returns the index of the bracket that closes the bracket at start, or -1 if there is none.
function closing(name, start) {
  const open = name[start];
  const close = open === '<' ? '>' : ')';
  let depth = 0;
  for (let i = start; i < name.length; i++) {
    if (name[i] === open) depth++;
    if (name[i] === close && name[i - 1] !== '-' && --depth === 0) return i;
  }
  return -1;
}

// withoutPath leaves out the path of a package of Go: net/http.(*conn).serve becomes http.(*conn).serve.
const withoutPath = (name) => name.replace(/^([\w.~-]+\/)+(?=[\w.~-]+\.)/, '');

// packageOf returns the package, namespace or crate of a function, by the conventions of its language, or '' if
// unknown.
function packageOf(name, file, kind) {
  const modules =
    /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file) || /(?:site|dist)-packages\/([^/]+?)(?:\.py)?(?:\/|$)/.exec(file);
  if (modules) return modules[1];
  if (kind === 'kernel') return 'kernel';
  if (kind === 'unnamed' || kind === 'other') return '';
  if (file.endsWith('.go')) return (/^(?:[\w.~%-]+\/)*[\w~%-]+(?=\.)/.exec(name) || [''])[0];
  if (name.includes('::'))
    return (/[A-Za-z_]\w*(?=(?:<.*>)?::)/.exec(name.replace(/^.*\(anonymous namespace\)::/, '')) || [''])[0];
  const parts = /^[\w$]+(?:\.[\w$]+)+/.exec(name);
  if (kind === 'jit' && parts) return parts[0].split('.').slice(0, -2).join('.') || parts[0].split('.')[0];
  return '';
}
