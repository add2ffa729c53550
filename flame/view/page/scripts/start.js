// start shows the data, from the page itself or from the server.
async function start(root) {
  let data;
  const inPage = document.getElementById('flame-data');
  try {
    if (inPage) {
      data = JSON.parse(inPage.textContent);
    } else {
      const answer = await fetch(root.dataset.tree);
      data = await answer.json();
      if (!answer.ok) throw new Error(data.error);
    }
  } catch (error) {
    const message = 'The flame graph cannot be shown: ' + error.message;
    root.replaceChildren(element('p', { class: 'status', role: 'alert' }, message));
    return;
  }
  root.view = new View(root, data);
}

start(document.getElementById('flame'));
