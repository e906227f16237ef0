package examples_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/sqltest"
	"keyfold/source/outbox"
)

// shopDatabase is a database with keyfold's tables and the shop's table of orders.
type shopDatabase struct {
	*sql.DB
	url      string // keyfold's DATABASE_URL
	doctrine string // the example's
}

// onShops runs a test on every kind of database.
func onShops(t *testing.T, test func(t *testing.T, db *shopDatabase)) {
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		server := sqltest.Shared(t)
		name := server.Database(t)
		url := server.URL(name)
		test(t, newShop(t, url, url, "mysql", "root@tcp("+server.Address()+")/"+name))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		server := pgtest.Shared(t)
		url := server.URL(server.Database(t, ""))
		test(t, newShop(t, url, url, "pgx", url))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "shop.db")
		test(t, newShop(t, "sqlite://"+path, "sqlite:///"+path, "sqlite", "file:"+path+"?_pragma=busy_timeout(60000)"))
	})
}

func newShop(t *testing.T, url, doctrine, driver, name string) *shopDatabase {
	t.Helper()
	db, err := outbox.Open(url)
	must.OK(t, err)
	defer db.Close()
	must.OK(t, db.Setup(t.Context(), outbox.SetupOptions{}))
	pool, err := sql.Open(driver, name)
	must.OK(t, err)
	t.Cleanup(func() { pool.Close() })
	text, err := os.ReadFile("outbox.php")
	must.OK(t, err)
	_, create, _ := strings.Cut(string(text), " *   CREATE TABLE")
	create, _, _ = strings.Cut(create, "\n") // the statement of the example's own comment
	if _, err := pool.ExecContext(t.Context(), "CREATE TABLE"+create); err != nil {
		t.Fatal(err)
	}
	return &shopDatabase{DB: pool, url: url, doctrine: doctrine}
}

// steps is how many points of the transaction the program of testdata can stop at; the
// last one is behind the commit.
const steps = 8

// Whenever a shop's program is killed, its order and its event are both there or both
// absent. Every other one of the kills at the commit hits it while it is
// under way.
func TestOutboxExampleIsKilled(t *testing.T) {
	kills := 2 * steps // with one amid the commit
	if os.Getenv("KEYFOLD_SOAK") != "" {
		kills = 1000
	}
	onShops(t, func(t *testing.T, s *shopDatabase) {
		committed, racing := 0, 0
		for n := range kills {
			step := n % steps
			race := step == steps-2 && n/steps%2 == 1
			killAt(t, s, step, n+1, race)
			switch {
			case step == steps-1:
				committed++
			case race:
				racing++
			}
		}
		var both, orders, events int
		err := s.QueryRowContext(t.Context(), "SELECT (SELECT COUNT(*) FROM orders o JOIN user_interactions i ON i.user_id = o.user_id AND i.product_id = o.product_id), "+
			"(SELECT COUNT(*) FROM orders), (SELECT COUNT(*) FROM user_interactions)").Scan(&both, &orders, &events) // of one instant
		must.OK(t, err)
		if orders != both || events != both || both < committed || both > committed+racing {
			t.Errorf("after %d kills there are %d orders and %d events, %d of them together; %d were committed and %d were being committed",
				kills, orders, events, both, committed, racing)
		}
		t.Logf("%d kills: %d before the commit, %d during it, %d behind it; %d orders with their events", kills, kills-committed-racing, racing, committed, both)
	})
}

// killAt runs the example for a user and kills it where it has stopped, or just after it
// was let go.
func killAt(t *testing.T, s *shopDatabase, step, user int, race bool) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "php", "testdata/outbox_steps.php", fmt.Sprint(step), fmt.Sprint(user))
	command.Env = append(command.Environ(), "DATABASE_URL="+s.doctrine)
	input, err := command.StdinPipe()
	must.OK(t, err)
	output, err := command.StdoutPipe()
	must.OK(t, err)
	var errs strings.Builder
	command.Stderr = &errs
	must.OK(t, command.Start())
	line, _ := bufio.NewReader(output).ReadString('\n')
	if race {
		_, _ = input.Write([]byte("\n"))
	}
	_ = command.Process.Kill()
	_ = command.Wait()
	if line != fmt.Sprintf("at %d\n", step) {
		t.Fatalf("step %d: it printed %q %s; `make test` installs what it needs, or: apt-get install php-cli php-doctrine-dbal php-mysql php-pgsql php-sqlite3", step, line, errs.String())
	}
}

// taken is a publisher that keeps what it is given.
type taken chan outbox.Row

func (p taken) Publish(_ context.Context, rows []outbox.Row) []error {
	for _, row := range rows {
		p <- row
	}
	return make([]error, len(rows))
}

// What the example stores is a whole event that a relay publishes.
func TestOutboxExample(t *testing.T) {
	onShops(t, func(t *testing.T, s *shopDatabase) {
		if code, _, errs := run(t, []string{"DATABASE_URL=" + s.doctrine}, "", "php", "outbox.php", "12345", "789"); code != 0 {
			t.Fatalf("%d: %s", code, errs)
		}
		db, err := outbox.Open(s.url)
		must.OK(t, err)
		defer db.Close()
		published := make(taken, 9)
		if _, err := outbox.NewRelay(db, published, outbox.RelayConfig{}, slog.New(slog.DiscardHandler)).Drain(t.Context(), outbox.Filter{}, nil); err != nil {
			t.Fatal(err)
		}
		if len(published) != 1 {
			t.Fatalf("%d events were published", len(published))
		}
		row := <-published
		if e := checkEvent(t, string(row.Body), profile.Event{UserID: 12345, Type: profile.ProductPurchase, ProductID: 789}); row.Event != e {
			t.Errorf("it is published as %+v", row.Event)
		}
		if !strings.Contains(string(row.Body), `"metadata":{"source"`) {
			t.Errorf("it arrived as %s", row.Body)
		}
	})
}

func TestOutboxExampleUsage(t *testing.T) {
	for _, arguments := range [][]string{{}, {"12345"}, {"a", "789"}} {
		code, _, errs := run(t, []string{"DATABASE_URL=sqlite:///x"}, "", with([]string{"php", "outbox.php"}, arguments...)...)
		if code != 2 || !strings.Contains(errs, "usage") {
			t.Errorf("%v: %d: %s", arguments, code, errs)
		}
	}
	missing := "sqlite:////" + strings.TrimPrefix(t.TempDir(), "/") + "/none/shop.db"
	if code, _, errs := run(t, []string{"DATABASE_URL=" + missing}, "", "php", "outbox.php", "1", "789"); code != 1 || errs == "" {
		t.Errorf("without a database: %d: %s", code, errs)
	}
}
