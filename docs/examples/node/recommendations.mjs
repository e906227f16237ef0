// Prints what keyfold recommends to a user. Needs Node.js 18 and no package.
//
//   KEYFOLD_URL=http://127.0.0.1:7080 KEYFOLD_TOKEN=... node recommendations.mjs 17

/** Returns the products for a user, the best first; none where keyfold does not answer. */
async function recommendations(url, token, user, options = {}, timeout = 1000) {
  try {
    const answer = await fetch(`${url}/v1/users/${user}/recommendations?${new URLSearchParams(options)}`, {
      headers: token ? { Authorization: `Bearer ${token}` } : {},
      signal: AbortSignal.timeout(timeout),
    });
    if (answer.ok) {
      return (await answer.json()).recommendations;
    }
    console.error(`keyfold answered ${answer.status}: ${await answer.text()}`); // which says what is wrong
  } catch (error) {
    console.error(`keyfold does not answer: ${error.cause ?? error}`);
  }
  return [];
}

const url = process.env.KEYFOLD_URL || 'http://127.0.0.1:7080';
for (const product of await recommendations(url, process.env.KEYFOLD_TOKEN, process.argv[2], { k: 5, exclude: 'bought' })) {
  console.log(`${product.score.toFixed(3)}  ${product.product_name ?? product.product_id}`);
}
