<?php

/*
 * Stores an order and its event in one transaction: both are there or neither is. Nothing
 * else is sent: `keyfold relay` publishes the row. Needs PHP 8.1, Doctrine DBAL 3.6 or
 * later, `keyfold setup`, and a table of the shop's in the same database:
 *
 *   CREATE TABLE orders (user_id INT NOT NULL, product_id INT NOT NULL, placed_at VARCHAR(23) NOT NULL)
 *
 *   DATABASE_URL=mysql://shop:password@127.0.0.1:3306/shop php outbox.php 12345 789
 *
 * or postgres://..., or sqlite:////var/lib/shop/shop.db, in the form of Doctrine.
 */

declare(strict_types=1);

namespace Shop;

use Doctrine\DBAL\Connection;
use Doctrine\DBAL\DriverManager;
use Doctrine\DBAL\Tools\DsnParser;

// Composer's classes, or Debian's package php-doctrine-dbal.
require is_file(__DIR__ . '/vendor/autoload.php') ? __DIR__ . '/vendor/autoload.php' : 'Doctrine/DBAL/autoload.php';

/** Has to run again as a whole where the database ends the transaction. */
function placeOrder(Connection $db, int $userId, int $productId, \DateTimeImmutable $at): void
{
    // keyfold reads occurred_at as UTC. The milliseconds tell two events of a second apart.
    $at = $at->setTimezone(new \DateTimeZone('UTC'))->format('Y-m-d H:i:s.v');
    $db->transactional(function (Connection $db) use ($userId, $productId, $at): void {
        $db->insert('orders', ['user_id' => $userId, 'product_id' => $productId, 'placed_at' => $at]);
        $db->insert('user_interactions', [
            'user_id' => $userId,
            'event_type' => 'product_purchase',
            'search_phrase' => null,
            'product_id' => $productId,
            'occurred_at' => $at,
            'metadata' => json_encode(['source' => 'checkout'], JSON_THROW_ON_ERROR),
        ]);
    });
}

/** Returns what DriverManager::getConnection takes. */
function database(string $url): array
{
    $drivers = ['mysql' => 'pdo_mysql', 'postgres' => 'pdo_pgsql', 'postgresql' => 'pdo_pgsql', 'sqlite' => 'pdo_sqlite'];

    return (new DsnParser($drivers))->parse($url);
}

if (realpath($_SERVER['SCRIPT_FILENAME']) === __FILE__) {
    if (count($argv) !== 3 || !ctype_digit($argv[1]) || !ctype_digit($argv[2]) || !getenv('DATABASE_URL')) {
        fwrite(STDERR, "usage: DATABASE_URL=mysql://... php {$argv[0]} USER PRODUCT\n");
        exit(2);
    }
    try {
        placeOrder(DriverManager::getConnection(database(getenv('DATABASE_URL'))), (int) $argv[1], (int) $argv[2], new \DateTimeImmutable());
    } catch (\Doctrine\DBAL\Exception $e) {
        fwrite(STDERR, $e->getMessage() . "\n");
        exit(1);
    }
}
