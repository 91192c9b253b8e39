// Shows the token to the service, which answers with a cookie. A token behind # never leaves the browser in an address.
const said = document.getElementById("said");
const field = document.getElementById("token");

async function open(token) {
  const reply = await fetch("/api/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (reply.ok) {
    location.replace("/");
    return;
  }
  said.textContent = (await reply.json()).error;
  field.select();
}

document.getElementById("form").addEventListener("submit", (event) => {
  event.preventDefault();
  open(field.value.trim());
});
const given = decodeURIComponent(location.hash.slice(1));
if (given) {
  history.replaceState(null, "", "/login");
  open(given);
} else {
  field.focus();
}
