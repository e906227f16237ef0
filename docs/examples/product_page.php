<?php

/*
 * Recommends products by both vectors of a profile: what a product page does.
 *
 *   keyfold user export - | php product_page.php 17 0.5 products.ndjson
 *
 * A shop reads the profile from MongoDB and asks its index of products; here both are files.
 */

declare(strict_types=1);

namespace Shop;

/**
 * The vector to ask the index with: $share of the second vector, which is what the user
 * looks for right now, and the rest of the first.
 *
 * @param array<string, mixed> $profile a document of user_embeddings
 * @return list<float>
 */
function mixed_vector(array $profile, float $share): array
{
    $first = components($profile['embedding']);
    // An earlier version of keyfold may have written last, and left the second vector as it was.
    $version = $profile['short_version'] ?? $profile['version'];
    if (!isset($profile['embedding_short']) || $version !== $profile['version']) {
        return $first;
    }

    return array_map(
        static fn (float|int $long, float|int $short): float => (1 - $share) * $long + $share * $short,
        $first,
        components($profile['embedding_short']),
    );
}

/**
 * A vector as MongoDB has it: an array, or a binary of doubles (EMBEDDING_FORMAT).
 *
 * @return list<float>
 */
function components(mixed $vector): array
{
    return is_array($vector) ? $vector : array_values(unpack('e*', $vector->getData()));
}

/**
 * @param list<float|int> $a
 * @param list<float|int> $b
 */
function cosine(array $a, array $b): float
{
    $dot = $square = $other = 0.0;
    foreach ($a as $i => $x) {
        $dot += $x * $b[$i];
        $square += $x * $x;
        $other += $b[$i] * $b[$i];
    }

    return $square * $other > 0 ? $dot / sqrt($square * $other) : 0.0;
}

if ($argc !== 4) {
    fwrite(STDERR, "usage: keyfold user export - | php product_page.php 17 0.5 products.ndjson\n");
    exit(2);
}
[, $user, $share, $file] = $argv;
while (($line = fgets(STDIN)) !== false) {
    $profile = json_decode($line, true, flags: JSON_THROW_ON_ERROR);
    if ($profile['user_id'] !== (int) $user || !isset($profile['embedding'])) {
        continue;
    }
    $vector = mixed_vector($profile, (float) $share);
    $near = [];
    foreach (file($file) as $product) {
        $product = json_decode($product, true, flags: JSON_THROW_ON_ERROR);
        $near[$product['product_name']] = cosine($vector, $product['embedding']);
    }
    arsort($near);
    foreach (array_slice($near, 0, 10) as $name => $cosine) {
        printf("%.3f  %s\n", $cosine, $name);
    }
    exit(0);
}
fwrite(STDERR, "user $user has no profile\n");
exit(1);
