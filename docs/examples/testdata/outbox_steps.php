<?php

/*
 * Runs placeOrder of the example and stops at one step of its transaction, for the test
 * that kills it there: php outbox_steps.php STEP USER. It prints "at STEP" and waits for a
 * line of its standard input.
 */

declare(strict_types=1);

namespace Shop;

use Doctrine\DBAL\Connection;
use Doctrine\DBAL\DriverManager;

require __DIR__ . '/../outbox.php';

final class Stepping extends Connection
{
    private int $step = 0;

    private function step(): void
    {
        global $argv;
        if ($this->step++ === (int) $argv[1]) {
            echo "at {$argv[1]}\n";
            fgets(STDIN);
        }
    }

    public function beginTransaction()
    {
        $this->step(); // 0
        $done = parent::beginTransaction();
        $this->step(); // 1

        return $done;
    }

    public function executeStatement($sql, array $params = [], array $types = [])
    {
        $this->step(); // 2, 4
        $rows = parent::executeStatement($sql, $params, $types);
        $this->step(); // 3, 5

        return $rows;
    }

    public function commit()
    {
        $this->step(); // 6
        $done = parent::commit();
        $this->step(); // 7

        return $done;
    }
}

$user = (int) $argv[2];
$db = DriverManager::getConnection(['wrapperClass' => Stepping::class] + database(getenv('DATABASE_URL')));
placeOrder($db, $user, 789, new \DateTimeImmutable());
