<?php

/*
 * Sends events to keyfold's HTTP API. Needs PHP 8.1 and no extension.
 *
 *   KEYFOLD_URL=http://127.0.0.1:7080 KEYFOLD_TOKEN=... php http.php search 12345 'hiking boots'
 */

declare(strict_types=1);

namespace Shop;

require __DIR__ . '/event.php';

final class KeyfoldApi
{
    public function __construct(
        private readonly string $url,
        private readonly string $token = '',
        private readonly float $timeout = 5.0,
        private readonly int $attempts = 4,
    ) {
    }

    /**
     * Stores events, all or none, and returns their message ids. Whatever goes
     * wrong on the way, sending the same events again is safe.
     *
     * @param list<array> $events
     * @return list<string>
     */
    public function send(array $events): array
    {
        $body = implode("\n", array_map(json(...), $events));
        for ($attempt = 1; ; $attempt++) {
            [$status, $retryAfter, $answer] = $this->post($body);
            if ($status === 202) {
                return json_decode($answer, true, flags: JSON_THROW_ON_ERROR)['message_ids'];
            }
            // 0: no answer came. The others say that it may work later.
            $passing = in_array($status, [0, 408, 429, 502, 503, 504], true);
            if (!$passing || $attempt === $this->attempts) {
                throw new \RuntimeException("keyfold answered {$status}: {$answer}", $status);
            }
            sleep($retryAfter ?? 2 ** ($attempt - 1));
        }
    }

    /** @return array{int, ?int, string} status, Retry-After, body */
    private function post(string $body): array
    {
        $headers = ['Content-Type: application/x-ndjson', 'Connection: close'];
        if ($this->token !== '') {
            $headers[] = "Authorization: Bearer {$this->token}";
        }
        $answer = @file_get_contents($this->url . '/v1/events', false, stream_context_create(['http' => [
            'method' => 'POST',
            'header' => $headers,
            'content' => $body,
            'timeout' => $this->timeout,
            'follow_location' => 0,
            'ignore_errors' => true, // the body of a 400 says what is wrong
        ]]));
        if ($answer === false) {
            return [0, null, error_get_last()['message'] ?? 'no answer'];
        }
        $status = (int) explode(' ', $http_response_header[0])[1];
        $retryAfter = null;
        foreach ($http_response_header as $header) {
            if (preg_match('/^Retry-After:\s*(\d+)/i', $header, $m)) {
                $retryAfter = (int) $m[1];
            }
        }

        return [$status, $retryAfter, $answer];
    }
}

$api = new KeyfoldApi(getenv('KEYFOLD_URL') ?: 'http://127.0.0.1:7080', getenv('KEYFOLD_TOKEN') ?: '');
try {
    echo implode("\n", $api->send([eventFromArguments($argv)])), "\n";
} catch (\RuntimeException $e) {
    fwrite(STDERR, $e->getMessage() . "\n");
    exit(1);
}
