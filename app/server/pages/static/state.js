// One line about the server: ready, or how far it is.

export function watchState(place) {
  const look = async () => {
    let wait = 10_000;
    try {
      const reply = await fetch("/readyz");
      const { status, models } = await reply.json();
      const warming = models.find((model) => model.status !== "ready");
      const progress = warming?.warm ? `, ${warming.name} ${warming.warm.done} of ${warming.warm.total}` : "";
      place.textContent = status === "ready" ? "ready" : `${status}${progress}`;
      if (status !== "ready") wait = 1000;
    } catch {
      place.textContent = "no answer";
      wait = 2000;
    }
    setTimeout(look, wait);
  };
  look();
}
