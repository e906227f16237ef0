package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
	"keyfold/source/outbox"
)

// numbers is a table of the numbers below n, by database.
func numbers(kind string, n int) string {
	switch kind {
	case outbox.PostgreSQL:
		return fmt.Sprintf("(SELECT generate_series(0, %d) AS n) AS numbers", n-1)
	case outbox.MariaDB:
		return fmt.Sprintf("(SELECT seq AS n FROM seq_0_to_%d) AS numbers", n-1)
	}
	return fmt.Sprintf("(WITH RECURSIVE r (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r WHERE n + 1 < %d) SELECT n FROM r) AS numbers", n)
}

// when is the time so many seconds after the beginning, by database.
func when(kind, seconds string) string {
	switch kind {
	case outbox.PostgreSQL:
		return "TIMESTAMP '2026-01-01' + (" + seconds + ") * INTERVAL '1 second'"
	case outbox.MariaDB:
		return "TIMESTAMPADD(SECOND, " + seconds + ", '2026-01-01')"
	}
	return "strftime('%Y-%m-%d %H:%M:%f', '2026-01-01', (" + seconds + ") || ' seconds')"
}

// grow stores so many events, in sessions of ten, whose products are of one topic; and one user
// with 100,000 of them without a pause.
func (s *shop) grow(t *testing.T, kind string, events, products int) {
	t.Helper()
	text, div := "TEXT", "/"
	if kind == outbox.MariaDB {
		text, div = "CHAR", "DIV"
	}
	insert := func(id, user, product, seconds string, n int) {
		s.exec(t, fmt.Sprintf("INSERT INTO user_interactions (user_id, event_type, product_id, occurred_at, message_id, body, shard) "+
			"SELECT %s, 'product_view', %s, %s, CONCAT('%s', CAST(n AS %s)), '{}', 0 FROM %s",
			user, product, when(kind, seconds), id, text, numbers(kind, n)))
	}
	topics := products / 100
	session := "(n " + div + " 10)"
	insert("m", "1 + "+session+" % 60000", fmt.Sprintf("1 + (%s * 7919 %% %d) * 100 + (n * 7 + %s %s %d) %% 100", session, topics, session, div, topics), "n * 20", events)
	insert("crawler", "70000", fmt.Sprintf("1 + n %% %d", products), "n", 100_000)
}

// learnApart learns in a process of its own and returns how much memory that had at most.
func (s *shop) learnApart(t *testing.T) (l lesson, resident int64) {
	t.Helper()
	program, log := asProcess(append([]string{"products", "learn", "--into", "learned", "-o", "json"}, s.flags()...)...)
	var out strings.Builder
	program.Stdout = &out
	must.OK(t, program.Run())
	if err := json.Unmarshal([]byte(out.String()), &l); err != nil {
		t.Fatalf("%v in %s%s", err, &out, log)
	}
	return l, process.Resident(program)
}

// A history of a million events, one of whose users is a crawler, is learned from within the
// memory limit; without KEYFOLD_SOAK, a thirtieth of it. How long that takes is logged.
//
// Promise(recommend/learned-size): `products learn` takes less than two minutes for a million events on two processors. *26 s and 324 MB for 1,100,000 events*
func TestLearnFromMany(t *testing.T) {
	events, products := 30_000, 2_000
	if long {
		events, products = 1_000_000, 20_000
	}
	for _, kind := range []string{outbox.SQLite, outbox.PostgreSQL, outbox.MariaDB} {
		t.Run(kind, func(t *testing.T) {
			s := newShop(t, kind)
			var lines strings.Builder
			for id := range products {
				fmt.Fprintf(&lines, "{\"product_id\":%d,\"product_name\":\"product number %d\",\"category\":\"topic %d\"}\n", id+1, id*7919%100_003, id*31%17)
			}
			if code, _, errs := keyfold(t.Context(), lines.String(), append([]string{"products", "import", "-", "--embed"}, s.flags()...)...); code != 0 {
				t.Fatal(errs)
			}
			s.grow(t, kind, events, products)
			began := time.Now()
			l, resident := s.learnApart(t)
			took := time.Since(began)
			t.Logf("%d events of %d products: %v, %d MB resident", l.Events, l.Products, took.Round(time.Second/10), resident>>20)
			if resident > 512<<20 || l.Events != events+100_000 || l.Learned < products*9/10 {
				t.Errorf("%d bytes, %+v", resident, l)
			}
		})
	}
}
