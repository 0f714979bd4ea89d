// SPDX-License-Identifier: Apache-2.0
// Asks for the snapshot every few seconds and shows it as it is.

const state = document.getElementById("state");
const snapshot = document.getElementById("snapshot");

async function look() {
	try {
		const answer = await fetch("live", { cache: "no-cache" });
		if (!answer.ok) throw new Error("status " + answer.status);
		const all = await answer.json();
		state.textContent = "As of " + all.time;
		snapshot.textContent = JSON.stringify(all, null, 1);
	} catch (error) {
		state.textContent = "No answer: " + error.message;
	}
	setTimeout(look, 3000);
}

look();
