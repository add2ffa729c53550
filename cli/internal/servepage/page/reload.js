// Loads the page again when a file has changed. The script's element has the version that the page shows.
(() => {
  const { version, url } = document.currentScript.dataset;
  setInterval(async () => {
    try {
      const answer = await fetch(url);
      if (answer.ok && (await answer.text()) !== version) location.reload();
    } catch {
      // the server has ended
    }
  }, 2000);
})();
