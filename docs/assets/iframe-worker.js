/* Search for pages that are opened as files.

   The theme searches in a web worker, and browsers allow none to a page whose address begins with file://. There, this
   stands in for one: the worker's script runs in a hidden frame instead. Material's offline plugin would fetch a script of
   this purpose from the network with every page; because this file is listed in mkdocs.yml, it does not. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.receive(data);
      const script = this.inside.document.createElement("script");
      script.src = String(url);
      this.loaded = new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = () => reject(new Error(`cannot load ${url}`));
      });
      this.inside.document.body.appendChild(script);
    }

    /* from the worker to the page */
    receive(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }

    /* from the page to the worker, once its script is there */
    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
