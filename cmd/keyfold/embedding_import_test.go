package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
	"keyfold/source/vector/openai"
)

// things are n products that have no vector.
func things(n int) []profile.Product {
	products := make([]profile.Product, n)
	for i := range products {
		products[i] = profile.Product{ID: int32(1000 + i), Name: fmt.Sprintf("Thing %d", i), Category: "Things"}
	}
	return products
}

// importing runs `products import --embed` to its end and returns what it says.
func (a *apiStack) importing(t *testing.T, products []profile.Product, args ...string) (done struct {
	Imported, Embedded, Known, Tokens int
},
) {
	t.Helper()
	code, out, errs := a.run(t, catalogue(t, products), append([]string{"products", "import", "-", "--embed", "-o", "json"}, args...)...)
	if code != 0 {
		t.Fatalf("products import: %s", errs)
	}
	must.OK(t, json.Unmarshal([]byte(out), &done))
	return done
}

// An import that was killed goes on where it was: the second run has only those
// vectors made that are missing.
//
// Promise(away/import-killed): An import of products that was killed goes on with the same command;
// what is there is not embedded again.
func TestImportGoesOnAfterAKill(t *testing.T) {
	const n, chunk = 2000, 250
	a := newAPIStack(t)
	before := a.api.Counts()
	a.api.SetFaults(embedtest.Faults{Latency: time.Second}) // it is far from its end when it is killed
	file := filepath.Join(t.TempDir(), "shop.ndjson")
	must.OK(t, os.WriteFile(file, []byte(catalogue(t, things(n))), 0o600))
	program, _ := asProcess(a.flags(a.args("products", "import", file, "--embed")...)...)
	must.OK(t, program.Start())
	eventually(t, "some products are in", func() error {
		if requests, _ := a.asked(before); requests < 4 {
			return fmt.Errorf("%d requests", requests)
		}
		return nil
	})
	must.OK(t, program.Process.Kill())
	if err := program.Wait(); err == nil {
		t.Fatal("the import had ended by itself: the test proves nothing")
	}
	first := a.api.Counts()
	a.api.SetFaults(embedtest.Faults{})
	done := a.importing(t, things(n))
	_, inputs := a.asked(first)
	t.Logf("killed after %d requests; then %+v", first.Requests-before.Requests, done)
	if done.Imported != n || done.Embedded+done.Known != n || inputs != done.Embedded || done.Known < 2*chunk {
		t.Errorf("%+v, %d texts were sent", done, inputs)
	}

	last := a.api.Counts()
	if done := a.importing(t, things(n)); done.Known != n || done.Tokens != 0 {
		t.Errorf("a third time: %+v", done)
	}
	renamed := things(n)
	renamed[3].Name, renamed[n-1].Category = "Another thing", "Others"
	if done := a.importing(t, renamed); done.Embedded != 2 {
		t.Errorf("with two products changed: %+v", done)
	}
	if requests, inputs := a.asked(last); requests != 2 || inputs != 2 {
		t.Errorf("%d texts in %d requests for two changed products", inputs, requests)
	}
	last = a.api.Counts()
	if done := a.importing(t, renamed[:500], "--again"); done.Embedded != 500 || done.Tokens != a.api.Counts().Tokens-last.Tokens || done.Tokens == 0 {
		t.Errorf("--again: %+v, the service counted %d tokens", done, a.api.Counts().Tokens-last.Tokens)
	}
	code, out, errs := a.run(t, catalogue(t, things(300)), "products", "import", "-", "--embed", "--again")
	if code != 0 || !strings.Contains(out, "300 products imported; ") || !strings.Contains(out, " tokens") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	code, out, _ = a.run(t, catalogue(t, things(300)), "products", "import", "-", "--embed")
	if code != 0 || !strings.Contains(out, "300 of them with the vector the store had") {
		t.Errorf("%d %s", code, out)
	}
}

// An import waits out what passes, keeps to its rate, and stops at what does not,
// with the cure.
//
// Promise(away/import-killed)
func TestImportIsPatient(t *testing.T) {
	a := newAPIStack(t)
	a.importsAtItsRate(t)
	for _, status := range []int{http.StatusTooManyRequests, http.StatusInternalServerError} {
		a.api.SetFaults(embedtest.Faults{Status: status, RetryAfter: 20 * time.Millisecond})
		before := a.api.Counts()
		ended := begin(t.Context(), catalogue(t, things(1000)), a.flags(a.args("products", "import", "-", "--embed", "--again", "-o", "json")...)...)
		eventually(t, "the import has met the fault twice", func() error {
			if requests, _ := a.asked(before); requests < 2 {
				return fmt.Errorf("%d requests", requests)
			}
			return nil
		})
		a.api.SetFaults(embedtest.Faults{})
		if e := <-ended; e.code != 0 || !strings.Contains(e.out, `"embedded":1000`) {
			t.Errorf("%d: %+v", status, e)
		}
	}
	a.api.SetFaults(embedtest.Faults{Status: 429, Code: "insufficient_quota", Message: "You exceeded your current quota"})
	code, out, errs := a.run(t, catalogue(t, append(things(250), things(2000)[1900:]...)), "products", "import", "-", "--embed")
	if code != 1 || out != "" || !strings.Contains(errs, "OPENAI_API_KEY") || !strings.Contains(errs, "250 products were stored") || !strings.Contains(errs, "goes on where it stopped") {
		t.Errorf("%d %s %s", code, out, errs)
	}
}

// importsAtItsRate has the second of four requests due long after the test's end.
func (a *apiStack) importsAtItsRate(t *testing.T) {
	t.Helper()
	before := a.api.Counts()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := begin(ctx, catalogue(t, things(1000)), a.flags(a.args("products", "import", "-", "--embed", "--again", "--rate=0.0001/s")...)...)
	store := a.open(t)
	eventually(t, "the products of the first request are stored", func() error {
		found, err := store.Products(t.Context(), []int32{1000})
		if err == nil && len(found) == 0 {
			err = errors.New("none is")
		}
		return err
	})
	stop()
	e := <-ended
	if requests, _ := a.asked(before); requests != 1 || e.code == 0 || !strings.Contains(e.errs, " products were stored") { // the last answer of the store may be on its way
		t.Errorf("%d requests at one in three hours: %+v", requests, e)
	}
}

// Vectors of two models cannot be mixed: a worker of another model than the
// store's is not ready and says what to do, before it folds anything; nothing is
// dead-lettered, and the cure works.
//
// Promise(event/configuration): With a wrong password, a missing right, or another history, model or
// dimension, the worker consumes nothing and names the cure once.
func TestAnotherModelInTheStore(t *testing.T) {
	a := newAPIStack(t)
	first := a.work(t, quick).ready()
	known := event(1, profile.Search, "red shoes", hourAgo(), "known")
	a.publish(t, known)
	a.settled(t, a.expect(t, [][]byte{known}))
	first.stop()

	code, _, errs := keyfold(t.Context(), "", append(a.flags(a.args("--embedding-model=text-embedding-9")...), "work")...)
	for _, want := range []string{"EMBEDDING_MODEL=" + openai.DefaultModel, "user rebuild"} {
		if code != 1 || !strings.Contains(errs, want) {
			t.Errorf("a profile of another model: exit code %d, want 1 and %q:\n%s", code, want, errs)
		}
	}
}

// The same where no profile tells, but the products do.
//
// Promise(event/configuration)
func TestAnotherModelInTheProducts(t *testing.T) {
	b := newAPIStack(t)
	args := []string{quick, "--embedder=hash", "--embedding-model=another"}
	d := b.work(t, args...).ready()
	body := event(1, profile.ProductView, 1, hourAgo(), "view")
	b.publish(t, body)
	eventually(t, "the worker is not ready", func() error {
		code, told := d.get("/readyz")
		if code == 200 || !strings.Contains(told, "products import") || !strings.Contains(told, openai.DefaultModel) {
			return fmt.Errorf("%d %s", code, told)
		}
		return nil
	})
	d.stop()
	if n := b.depth(t, rabbit.DefaultNames().DeadLetters); n != 0 {
		t.Errorf("%d dead letters by another model", n)
	}
	if code, _, errs := b.run(t, catalogue(t, b.products), "products", "import", "-", "--embed", "--embedder=hash", "--embedding-model=another"); code != 0 {
		t.Fatal(errs)
	}
	b.work(t, args...).ready()
	b.settled(t, b.expect(t, [][]byte{body}))
}
