// The way in: an operator's name and password, or the admin token.

import { h } from "./dom.js";
import { post } from "./api.js";

export function open(root, said, onentered) {
  const fault = h("p", { class: "fault", role: "alert" }, said);
  const operator = [
    field("Name", { name: "name", autocomplete: "username", required: true }),
    field("Password", { name: "password", type: "password", autocomplete: "current-password", required: true }),
  ];
  const token = [
    field("Admin token", { name: "token", type: "password", autocomplete: "off", required: true, "aria-describedby": "token-hint" }),
    h("p", { class: "muted hint", id: "token-hint" }, "The content of ", h("code", null, "admin.token"), " in the proxy's state directory."),
  ];
  const inputs = h("div");
  const choose = (fields) => {
    inputs.replaceChildren(...fields);
    inputs.querySelector("input").focus();
  };
  const way = (label, fields) => h("label", { class: "way" },
    h("input", { type: "radio", name: "way", checked: localStorage.way === label || !localStorage.way && fields === token, onchange: () => { localStorage.way = label; choose(fields); } }), label);
  const go = h("button", { type: "submit", class: "primary" }, "Log in");
  const form = h("form", { class: "signin" },
    h("h1", null, "Log in"),
    h("fieldset", null, h("legend", { class: "unseen" }, "Log in as"), way("Admin token", token), way("Operator", operator)),
    inputs, fault, go);
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    fault.textContent = "";
    go.disabled = true;
    const given = new FormData(form);
    try {
      await post("login", {
        name: given.get("name") ?? "token",
        password: given.get("password") ?? given.get("token").trim(),
        device: device(), browser: true,
      });
      onentered();
    } catch (err) {
      fault.textContent = given.has("token") && err.code === "login" ? "This is not the admin token." : err.message;
      go.disabled = false;
    }
  });
  root.replaceChildren(form);
  choose(localStorage.way === "Operator" ? operator : token);
}

/** What the list of those who are logged in calls this browser. */
function device() {
  const ua = navigator.userAgent;
  const find = (names) => names.find(([mark]) => ua.includes(mark))?.[1];
  const browser = find([["Edg/", "Edge"], ["OPR/", "Opera"], ["Firefox/", "Firefox"], ["Chrome/", "Chrome"], ["Safari/", "Safari"]]);
  const system = find([["Android", "Android"], ["iPhone", "iPhone"], ["iPad", "iPad"], ["Windows", "Windows"], ["Mac OS", "macOS"], ["Linux", "Linux"]]);
  return browser && system ? `${browser} on ${system}` : ua;
}

const field = (label, attributes) => h("label", { class: "field" }, h("span", null, label), h("input", attributes));
