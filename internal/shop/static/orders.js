// Shows whose orders these are, and follows a parcel when asked to: a stream
// opened at load would keep browser drivers waiting for a quiet network.
const show = (id, text) => {
  const element = document.getElementById(id);
  element.hidden = false;
  if (text !== undefined) element.textContent = text;
};

const answer = await fetch("/api/me");
if (answer.ok) {
  const {user} = await answer.json();
  show("who", `These are the orders of ${user}.`);
  show("parcel");
} else if (answer.status === 401) {
  show("who", "You are not signed in.");
  show("signin");
} else {
  show("who", "The shop does not answer as it should. Please try again later.");
}

document.getElementById("follow").addEventListener("click", ({target}) => {
  target.disabled = true;
  const events = new EventSource("/events");
  events.onmessage = ({data}) => show("where", JSON.parse(data).parcel);
  events.onerror = () => {
    if (events.readyState === EventSource.CLOSED) show("where", "You are not signed in any more.");
  };
});
