package dashboard

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"keyfold/service/failed"
)

// Where a place cannot be counted it is said, and not that nothing has failed.
func TestPlacesThatCannotBeCounted(t *testing.T) {
	f := failingWith(t, newPile(append(many(3), row(1))...), Config{})
	away := func() {
		*f.now = f.now.Add(2 * sampleEvery)
		r := f.pile.report(*f.now)
		r.Queues, r.Outbox = nil, nil
		f.watch.take(*f.now, r, nil)
	}
	away()
	_, page := get(t, f, "/failures")
	says(t, page, "dead letters of profiles: - cannot be counted now", "rows that were set aside in SQL: - cannot be counted now")
	if strings.Contains(page, "Nothing has failed") {
		t.Error("it is said that nothing has failed")
	}
	f.look()
	get(t, f, "/failures")
	away()
	_, page = get(t, f, "/failures")
	says(t, page, "dead letters of profiles: - cannot be counted now", "1-4 of 4")
	*f.now = f.now.Add(2 * sampleEvery)
	r := quiet(90)
	r.At, r.Queues[2].Ready, r.Queues[2].Missing = *f.now, 0, true // it was never made
	f.watch.take(*f.now, r, nil)
	if _, page = get(t, f, "/failures"); strings.Contains(page, "cannot be counted") {
		t.Errorf("a queue that is not there has letters that cannot be counted: %s", read(page))
	}
}

// However many letters are asked for by made-up ids, a few passes alone wait.
func TestPagesOfMadeUpLettersMakeFewPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := failingWith(t, newPile(many(3)...), Config{})
		f.pile.hold = make(chan struct{})
		busy := 0
		for i := range 500 {
			s := f.index.show(failed.Broker, fmt.Sprintf("made-up-%d", i))
			select {
			case <-s.done:
				busy++
			default:
			}
		}
		close(f.pile.hold)
		synctest.Wait()
		if f.pile.passes > 10 || busy != 500-f.pile.passes {
			t.Errorf("%d passes are made, %d pages say that others are", f.pile.passes, busy)
		}
		if _, page := get(t, f, letterPath(failed.Broker, "m-1")); !strings.Contains(page, "timeout 1") {
			t.Errorf("later a letter is not shown: %s", read(page))
		}
	})
}

// A list that is read between two places of an action is not cut a second time by what the first
// one took.
func TestAListReadBetweenTwoPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := failingWith(t, newPile(append(many(3), row(1), row(2))...), Config{Actions: true})
		<-f.index.begin()
		remove := f.sources.Failures.verbs()[1]
		plan, err := f.planFailures(context.Background(), remove, "user=2", &Progress{})
		if err != nil || plan.Count != 2 {
			t.Fatalf("%+v, %v", plan, err)
		}
		f.pile.hold = make(chan struct{})
		done := make(chan error)
		go func() {
			_, err := f.doFailures(context.Background(), remove, plan, &Progress{})
			done <- err
		}()
		synctest.Wait()
		read := f.index.begin() // it has its turn once the rows are done
		synctest.Wait()
		close(f.pile.hold)
		<-read
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		last := f.index.state().last
		if rows, letters := last.places[failed.SQL].waiting, last.places[failed.Broker].waiting; rows != 1 || letters != 2 || len(last.letters) != 3 {
			t.Errorf("the list has %d rows and %d letters of %d, want 1, 2 and 3", rows, letters, len(last.letters))
		}
	})
}

// What was archived cannot be retried: the plan says that there is no way back.
func TestAnArchiveHasNoWayBack(t *testing.T) {
	f := failingWith(t, newPile(many(3)...), Config{Actions: true})
	plan, _ := f.act(t, "archive", nil, nil)
	says(t, plan, "There is no way back")
}
