<?php

declare(strict_types=1);

namespace Shop;

/**
 * What a user did, in the form keyfold reads.
 *
 * $type is one of search, product_view, product_click and product_purchase;
 * $reference is the phrase of a search and the product's id otherwise.
 *
 * The message_id follows from what happened and when. Make the event once and
 * keep it for as long as you may have to send it: sent twice, it counts once.
 */
function event(
    int $userId,
    string $type,
    int|string $reference,
    array $metadata = [],
    \DateTimeInterface $at = new \DateTimeImmutable(),
): array {
    $occurredAt = $at->format(DATE_RFC3339_EXTENDED); // milliseconds and the offset

    return [
        'user_id' => $userId,
        'event_type' => $type,
        'search_phrase' => $type === 'search' ? (string) $reference : null,
        'product_id' => $type === 'search' ? null : (int) $reference,
        'occurred_at' => $occurredAt,
        'metadata' => (object) $metadata, // [] must not become a JSON array
        'message_id' => hash('sha256', implode('|', [$userId, $type, $reference, $occurredAt])),
        'version' => '1.0',
    ];
}

function json(array $event): string
{
    return json_encode($event, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
}

/** Reads an event from a command line: TYPE USER PHRASE-OR-PRODUCT. */
function eventFromArguments(array $argv): array
{
    if (count($argv) !== 4 || !ctype_digit($argv[2])) {
        fwrite(STDERR, "usage: php {$argv[0]} search 12345 'hiking boots'\n       php {$argv[0]} product_view 12345 789\n");
        exit(2);
    }

    return event((int) $argv[2], $argv[1], $argv[3], ['source' => basename($argv[0])]);
}
