"use strict";
// Asks the passkey and hands over what it signed. What is signed came with the page; nothing of it is made here.
(() => {
  const place = document.getElementById("passkey");
  const button = document.getElementById("use-passkey");
  const said = document.getElementById("said");
  if (!place || !button) return;
  const { rp, challenge, credential, statement, nonce, name, user, to } = place.dataset;

  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (char) => char.charCodeAt(0));
  const text = (buffer) => {
    const chars = Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join("");
    return btoa(chars).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  };
  const send = async (value) => {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(to, { method: "POST", headers, body: JSON.stringify(value), cache: "no-store", redirect: "error" });
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.error);
    return told;
  };
  const sign = async () => {
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
  const acts = {
    login: async () => {
      const told = await send({ ...(await sign()), nonce });
      location.replace(told.to);
    },
    approve: async () => {
      const told = await send({ ...(await sign()), statement });
      const next = told.waits_for_quorum
        ? "It waits for further operators."
        : told.daemon_runs
          ? "The daemon runs it."
          : "It waits for a daemon: none runs.";
      said.textContent = `Approved: ${told.approved}. ${next}`;
      button.hidden = true;
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
      const told = await send({ credential: text(made.rawId), public_key: text(made.response.getPublicKey()) });
      said.textContent = `Made: ${told.fingerprint}. The terminal must show the same; say yes there.`;
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
