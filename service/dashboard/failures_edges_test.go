package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"keyfold/internal/testserver/must"
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
		must.OK(t, <-done)
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

// An action on a user that looks through dead letters meets all of them: no page has some in its
// hands meanwhile. What it took is not shown any more.
func TestAnActionThatReadsLettersMakesItsPassAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := failingWith(t, newPile(many(3)...), Config{Actions: true})
		pass := func() {
			end, _ := f.pile.begin(failed.Broker) // it has no fault
			end()
		}
		f.sources.Actions = append(f.sources.Actions, Action{
			Name: ForgetUser, Letters: true,
			Plan: func(context.Context, url.Values, *Progress) (*Planned, error) {
				pass()
				return &Planned{Title: "Erase?", Button: "erase"}, nil
			},
			Do: func(context.Context, *Planned, *Progress) (*Outcome, error) {
				pass()
				f.pile.letters[failed.Broker] = nil
				return &Outcome{}, nil
			},
		})
		show := with(f.plans.unlockCookie())
		if _, page := get(t, f, letterPath(failed.Broker, "m-1")); !strings.Contains(page, "timeout 1") {
			t.Fatalf("the letter is not shown: %s", read(page))
		}
		meanwhile := func(path string, fields url.Values) string {
			f.pile.hold = make(chan struct{})
			reading := f.index.begin()
			synctest.Wait()
			led := post(f, path, fields, show)
			close(f.pile.hold)
			<-reading
			synctest.Wait()
			_, page := get(t, f, led.Header.Get("Location"), show)
			return page
		}
		plan := planField.FindStringSubmatch(meanwhile(planPath+ForgetUser, nil))
		again := planField.FindStringSubmatch(meanwhile(planPath+ForgetUser, nil))
		if plan == nil || again == nil {
			t.Fatal("there is no plan")
		}
		meanwhile(doPath, url.Values{"plan": {plan[1]}})
		if f.pile.two {
			t.Error("two passes were made at once")
		}
		f.pile.letters[failed.Broker] = many(3)
		get(t, f, letterPath(failed.Broker, "m-1"))
		post(f, doPath, url.Values{"plan": {again[1]}}, show)
		if _, page := get(t, f, letterPath(failed.Broker, "m-1")); strings.Contains(page, "timeout 1") {
			t.Error("a letter that was taken is shown")
		}
	})
}

// Letters that bear no time were counted one by one: another one is not taken in place of one that went.
func TestLettersWithoutATime(t *testing.T) {
	foreign := func(id string) failed.Letter {
		return failed.Letter{Where: failed.Broker, ID: id, Reason: "foreign", Foreign: true}
	}
	f := failingWith(t, newPile(foreign("a"), foreign("b")), Config{Actions: true})
	_, done := f.act(t, "remove", nil, func() {
		f.pile.letters[failed.Broker] = []failed.Letter{foreign("later"), foreign("b")}
	})
	says(t, done, "1 of 2 removed, the rest gone meanwhile")
	if left := f.pile.letters[failed.Broker]; len(left) != 1 || left[0].ID != "later" {
		t.Errorf("left: %v", left)
	}
}

// A page of another site has no letters read by what it embeds; a link from there leads to the page.
func TestAnotherSiteHasNoLettersRead(t *testing.T) {
	f := failingWith(t, newPile(many(3)...), Config{})
	for _, site := range []string{"cross-site", "same-site"} {
		for kind, want := range map[string]int{"image": http.StatusForbidden, "empty": http.StatusForbidden, "iframe": http.StatusForbidden, "document": http.StatusOK} {
			before := f.pile.passes
			res, _ := get(t, f, letterPath(failed.Broker, "m-"+site+kind), func(r *http.Request) {
				r.Header.Set("Sec-Fetch-Site", site)
				r.Header.Set("Sec-Fetch-Dest", kind)
			})
			if read := f.pile.passes > before; res.StatusCode != want || read != (want == http.StatusOK) {
				t.Errorf("%s %s: %d, letters are read: %t", site, kind, res.StatusCode, read)
			}
		}
	}
}

// The page of a letter that takes long to find renews itself, and has the button that shows its body:
// the script that renews the page does not add it.
//
// Promise(dashboard/under-way)
func TestThePageOfALetterThatIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := failingWith(t, newPile(many(3)...), Config{Bodies: true})
		f.pile.hold = make(chan struct{})
		path := letterPath(failed.Broker, "m-1")
		_, page := get(t, f, path)
		says(t, page, "It is being looked for", "show the body")
		if !strings.Contains(page, renewed) {
			t.Error("it does not renew itself")
		}
		close(f.pile.hold)
		synctest.Wait()
		if _, page = get(t, f, path); strings.Contains(page, renewed) {
			t.Errorf("later: %s", read(page))
		}
		says(t, page, "timeout 1", "show the body")
	})
}
