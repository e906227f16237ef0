<?php

/*
 * Publishes events to RabbitMQ, for a shop that has an outbox of its own. Needs
 * PHP 8.1 and php-amqplib 3 (composer require php-amqplib/php-amqplib, or
 * Debian's package php-amqplib). `keyfold setup` has declared the exchange.
 *
 *   RABBITMQ_DSN=amqp://guest:guest@localhost:5672/ php amqp.php product_view 12345 789
 */

declare(strict_types=1);

namespace Shop;

use PhpAmqpLib\Channel\AMQPChannel;
use PhpAmqpLib\Connection\AMQPConnectionConfig;
use PhpAmqpLib\Connection\AMQPConnectionFactory;
use PhpAmqpLib\Message\AMQPMessage;

require is_file(__DIR__ . '/vendor/autoload.php') ? __DIR__ . '/vendor/autoload.php' : 'PhpAmqpLib/autoload.php';
require __DIR__ . '/event.php';

final class KeyfoldQueue
{
    private const EXCHANGE = 'user_events';
    private const CONFIRM_TIMEOUT = 5;

    /** @var list<string> what the broker refused since the last publish() */
    private array $refused = [];

    public function __construct(private readonly AMQPChannel $channel)
    {
        $channel->confirm_select();
        $channel->set_nack_handler(function (AMQPMessage $m): void {
            $this->refused[] = $m->get('message_id') . ': not taken';
        });
        // A message that no queue wants is confirmed as well: this tells.
        $channel->set_return_listener(function (int $code, string $text, string $exchange, string $key, AMQPMessage $m): void {
            $this->refused[] = "{$m->get('message_id')}: {$text} ({$key}); run keyfold setup";
        });
    }

    /**
     * Publishes events and returns once the broker has them. After an exception
     * publish all of them again: those that came through count once.
     *
     * @param list<array> $events
     */
    public function publish(array $events): void
    {
        $this->refused = [];
        foreach ($events as $event) {
            $this->channel->basic_publish(
                self::message($event),
                self::EXCHANGE,
                'user.embedding.' . $event['event_type'],
                mandatory: true,
            );
        }
        $this->channel->wait_for_pending_acks_returns(self::CONFIRM_TIMEOUT);
        if ($this->refused !== []) {
            throw new \RuntimeException('the broker refused ' . implode(', ', $this->refused));
        }
    }

    private static function message(array $event): AMQPMessage
    {
        return new AMQPMessage(json($event), [
            'content_type' => 'application/json',
            'content_encoding' => 'utf-8',
            'delivery_mode' => AMQPMessage::DELIVERY_MODE_PERSISTENT,
            'priority' => 5,
            'message_id' => $event['message_id'],
            'app_id' => 'shop',
            'timestamp' => (new \DateTimeImmutable($event['occurred_at']))->getTimestamp(),
        ]);
    }
}

/** amqp://user:password@host:port/vhost, or amqps:// for TLS. */
function configuration(string $dsn): AMQPConnectionConfig
{
    $part = parse_url($dsn);
    $secure = $part['scheme'] === 'amqps';
    $vhost = rawurldecode(substr($part['path'] ?? '', 1));
    $config = new AMQPConnectionConfig();
    $config->setHost($part['host']);
    $config->setPort($part['port'] ?? ($secure ? 5671 : 5672));
    $config->setUser(rawurldecode($part['user'] ?? 'guest'));
    $config->setPassword(rawurldecode($part['pass'] ?? 'guest'));
    $config->setVhost($vhost === '' ? '/' : $vhost);
    $config->setIsSecure($secure);
    $config->setConnectionName('shop events');

    return $config;
}

$event = eventFromArguments($argv);
try {
    $connection = AMQPConnectionFactory::create(configuration(getenv('RABBITMQ_DSN') ?: 'amqp://guest:guest@localhost:5672/'));
    (new KeyfoldQueue($connection->channel()))->publish([$event]);
    $connection->close();
    echo $event['message_id'], "\n";
} catch (\Exception $e) {
    fwrite(STDERR, $e->getMessage() . "\n");
    exit(1);
}
