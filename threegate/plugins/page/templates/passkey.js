"use strict";
// Asks the passkey and hands over what it signed. What is signed came with the page; nothing of it is made here.
(() => {
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (char) => char.charCodeAt(0));
  const text = (buffer) => {
    const chars = Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join("");
    return btoa(chars).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };
  const told = async (answer) => {
    if (!(answer.headers.get("Content-Type") || "").startsWith("application/json")) throw new Error("log in again");
    return answer.json();
  };
  const post = (to, value) =>
    fetch(to, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(value),
      cache: "no-store",
      redirect: "error",
    });
  const send = async (to, value) => {
    const answer = await post(to, value);
    const said = await told(answer);
    if (!answer.ok) throw new Error(said.error);
    return said;
  };
  const sign = async ({ rp, challenge, credential }) => {
    const allowCredentials = credential ? [{ type: "public-key", id: bytes(credential) }] : [];
    const got = await navigator.credentials.get({
      publicKey: { rpId: rp, challenge: bytes(challenge), allowCredentials, userVerification: "required" },
    });
    return {
      credential: text(got.rawId),
      authenticator_data: text(got.response.authenticatorData),
      client_data: text(got.response.clientDataJSON),
      signature: text(got.response.signature),
    };
  };

  const unsigned = document.getElementById("unsigned");
  if (unsigned) {
    const [end, ended] = ["end", "ended"].map((id) => document.getElementById(id));
    const { to, verify, rp, credential, draft } = unsigned.dataset;
    const buttons = { refuse: document.getElementById("refuse"), changes: document.getElementById("ask-changes") };
    const done = { refuse: "Refused", changes: "Changes asked for" };
    const disable = (off) => Object.values(buttons).forEach((button) => (button.disabled = off));
    const act = async (kind) => {
      const words = document.getElementById("words").value;
      const at = kind === "changes" ? document.getElementById("at").value : "";
      const value = { act: kind, draft, words, at };
      let answer = await post(to, value);
      let said = await told(answer);
      if (said.verify) {
        ended.textContent = "Waiting for your passkey.";
        const form = await told(await fetch(verify, { cache: "no-store", redirect: "error" }));
        await send(verify, { ...(await sign({ rp, credential, challenge: form.challenge })), nonce: form.nonce });
        answer = await post(to, value);
        said = await told(answer);
      }
      if (!answer.ok) throw new Error(said.error);
      ended.textContent = said.told || `${done[kind]}: ${said.ended}.`;
      const approve = document.getElementById("use-passkey");
      if (approve) approve.hidden = true;
    };
    end.hidden = false;
    for (const [kind, button] of Object.entries(buttons))
      button.addEventListener("click", async () => {
        disable(true);
        ended.textContent = "Sending.";
        try {
          await act(kind);
        } catch (error) {
          ended.textContent = `Not done: ${error.message}`;
          disable(false);
        }
      });
  }

  const place = document.getElementById("passkey");
  const button = document.getElementById("use-passkey");
  const said = document.getElementById("said");
  if (!place || !button) return;
  const { statement, nonce, rp, name, user, to } = place.dataset;
  const acts = {
    login: async () => {
      const answer = await send(to, { ...(await sign(place.dataset)), nonce });
      location.replace(answer.to);
    },
    approve: async () => {
      const answer = await send(to, { ...(await sign(place.dataset)), statement });
      const next = answer.waits_for_quorum
        ? "It waits for further operators."
        : answer.daemon_runs
          ? "The daemon runs it."
          : "It waits for a daemon: none runs.";
      said.textContent = answer.told || `Approved: ${answer.approved}. ${next}`;
      button.hidden = true;
      const end = document.getElementById("end");
      if (end) end.hidden = true;
    },
    enrol: async () => {
      const made = await navigator.credentials.create({
        publicKey: {
          rp: { id: rp, name: "ThreeGate" },
          user: { id: bytes(user), name, displayName: name },
          challenge: crypto.getRandomValues(new Uint8Array(32)),
          pubKeyCredParams: [{ type: "public-key", alg: -7 }],
          authenticatorSelection: { residentKey: "required", userVerification: "required" },
          attestation: "none",
        },
      });
      const answer = await send(to, { credential: text(made.rawId), public_key: text(made.response.getPublicKey()) });
      said.textContent = `Made: ${answer.fingerprint}. The terminal must show the same; say yes there.`;
      button.hidden = true;
    },
  };

  button.hidden = false;
  button.addEventListener("click", async () => {
    button.disabled = true;
    said.textContent = "Waiting for your passkey.";
    try {
      await acts[place.dataset.act]();
    } catch (error) {
      said.textContent = `Not done: ${error.message}`;
      button.disabled = false;
    }
  });
})();
