console.log('ready');
setTimeout(() => {}, 1e9);
