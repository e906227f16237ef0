<?php

/*
 * A page that shows what keyfold recommends to a user, and why. Needs PHP 8.1 and no extension.
 *
 *   KEYFOLD_URL=http://127.0.0.1:7080 KEYFOLD_TOKEN=... php -S 127.0.0.1:8080 recommendations.php
 *   http://127.0.0.1:8080/?user=17
 */

declare(strict_types=1);

namespace Shop;

/**
 * Asks keyfold for products for a user. A page must not wait for recommendations, nor fail
 * with them: where keyfold does not answer in time, there are none.
 *
 * @param array<string, scalar> $options k, exclude, category, diversity, mix, popularity, explain
 * @return list<array> the products, the best first
 */
function recommendations(string $url, string $token, int $user, array $options = [], float $timeout = 0.3): array
{
    $headers = ['Connection: close'];
    if ($token !== '') {
        $headers[] = "Authorization: Bearer {$token}";
    }
    $answer = @file_get_contents("{$url}/v1/users/{$user}/recommendations?" . http_build_query($options), false, stream_context_create(['http' => [
        'header' => $headers,
        'timeout' => $timeout,
        'follow_location' => 0,
        'ignore_errors' => true, // the body of a refusal says what is wrong
    ]]));
    $decoded = json_decode((string) $answer, true);
    if (isset($decoded['recommendations'])) {
        return $decoded['recommendations'];
    }
    error_log('keyfold: no recommendations: ' . ($answer === false ? 'no answer' : $answer));
    return [];
}

/** Says in words what put a product there. */
function reason(array $part): string
{
    $what = ['search' => 'your search', 'product_purchase' => 'your purchase', 'product_click' => 'your interest in', 'product_view' => 'your look at'];
    return sprintf('%d %% %s %s', round(100 * $part['share']), $what[$part['event_type']] ?? 'what you did with', $part['of']);
}

function text(mixed $value): string
{
    return htmlspecialchars((string) $value, ENT_QUOTES | ENT_SUBSTITUTE, 'UTF-8');
}

$user = filter_input(INPUT_GET, 'user', FILTER_VALIDATE_INT, ['options' => ['min_range' => 1]]) ?: (int) ($argv[1] ?? 0);
if ($user < 1) {
    http_response_code(400);
    exit("Add ?user=17 to the address.\n");
}
$products = recommendations(
    getenv('KEYFOLD_URL') ?: 'http://127.0.0.1:7080',
    getenv('KEYFOLD_TOKEN') ?: '',
    $user,
    ['k' => 5, 'exclude' => 'bought', 'explain' => 'true'],
    (float) (getenv('KEYFOLD_TIMEOUT') ?: 0.3),
);
?>
<!doctype html>
<meta charset="utf-8">
<title>For you</title>
<h1>For you</h1>
<ul>
<?php foreach ($products as $product): ?>
  <li><a href="/products/<?= text($product['product_id']) ?>"><?= text($product['product_name'] ?? $product['product_id']) ?></a>
<?php foreach ($product['because'] ?? [] as $part): ?>
    <small><?= text(reason($part)) ?></small>
<?php endforeach ?>
  </li>
<?php endforeach ?>
</ul>
