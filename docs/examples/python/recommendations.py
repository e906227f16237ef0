"""Prints what keyfold recommends to a user. Needs Python 3.9 and no package.

    KEYFOLD_URL=http://127.0.0.1:7080 KEYFOLD_TOKEN=... python3 recommendations.py 17
"""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request


def recommendations(url, token, user, timeout=1.0, **options):
    """Return the products for a user, the best first; none where keyfold does not answer."""
    query = urllib.parse.urlencode(options)
    request = urllib.request.Request(f"{url}/v1/users/{user}/recommendations?{query}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)["recommendations"]
    except urllib.error.HTTPError as error:  # its body says what is wrong
        print(f"keyfold answered {error.code}: {error.read().decode()}", file=sys.stderr)
    except OSError as error:
        print(f"keyfold does not answer: {error}", file=sys.stderr)
    return []


if __name__ == "__main__":
    url = os.environ.get("KEYFOLD_URL") or "http://127.0.0.1:7080"
    for product in recommendations(url, os.environ.get("KEYFOLD_TOKEN", ""), int(sys.argv[1]), k=5, exclude="bought"):
        print(f"{product['score']:.3f}  {product.get('product_name', product['product_id'])}")
