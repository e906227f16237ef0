package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/evaluation"
	"keyfold/service/profile/recommend"
	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
	"keyfold/source/vector"
)

// lesson is what `products learn -o json` says.
type lesson struct {
	Setting, Model                                                           string
	Dimensions, Products, Learned, Written, Events, Unknown, Users, Sessions int
	Already                                                                  bool
	Settings, Commands                                                       []string
}

func (s *shop) learn(t *testing.T, into string, args ...string) (l lesson) {
	t.Helper()
	out := s.must(t, append([]string{"products", "learn", "--into", into, "-o", "json", "--components=16"}, args...)...)
	if err := json.Unmarshal([]byte(out), &l); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return l
}

// switched is the shop as it is with what was learned.
func (s *shop) switched(into string, l lesson) *shop {
	other := *s
	other.more = append(slices.Clone(s.more), "--mongodb-database", into, fmt.Sprintf("--dimensions=%d", l.Dimensions), "--learned", l.Setting)
	return &other
}

// database is one of the shop's MongoDB.
func (s *shop) database(t *testing.T, name string) *mongo.Database {
	t.Helper()
	return s.collection(t).Database().Client().Database(name)
}

// catalogue returns the products of a database.
func (s *shop) catalogue(t *testing.T, name string) map[int32]profile.Product {
	t.Helper()
	c := mongodb.DefaultConfig()
	c.URI, c.Database = s.mongo, name
	store, err := mongodb.Open(t.Context(), c)
	must.OK(t, err)
	defer store.Close()
	all := map[int32]profile.Product{}
	for p, err := range store.AllProducts(t.Context()) {
		must.OK(t, err)
		all[p.ID] = p
	}
	return all
}

// withHistory is a shop of sessions, whose users have profiles.
func withHistory(t *testing.T, kind string, sessions int) *shop {
	t.Helper()
	s := newShop(t, kind)
	s.takeHistory(t, sessions)
	return s
}

func (s *shop) takeHistory(t *testing.T, sessions int) {
	t.Helper()
	s.importProducts(t)
	s.ingest(t).accepted(sorted(t, sampleOf(t, sessions))...)
}

// What was learned goes into another database, from which users are recommended products with
// reasons after the commands that the answer names; what runs stays as it was.
//
// Promise(recommend/learned): `products learn` writes vectors learned from the history into another database; profiles are made anew there while the live one goes on.
func TestLearn(t *testing.T) {
	onEach(t, outbox.PostgreSQL, func(t *testing.T, s *shop) {
		s.takeHistory(t, 80)
		s.allSent(t)
		s.work(t, quick).ready()
		s.folded(t, int64(s.expect(t, sorted(t, s.bodies(t))).Folded))
		before := s.catalogue(t, "keyfold")
		l := s.learn(t, "learned")
		if l.Dimensions != dimensions+16 || l.Products != len(s.products) || l.Written != l.Products || l.Learned == 0 || l.Already {
			t.Fatalf("%+v", l)
		}
		if after := s.catalogue(t, "keyfold"); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Error("the database that was read has changed")
		}
		if rows := s.count(t, "SELECT COUNT(*) FROM user_interactions WHERE duplicate = FALSE"); l.Events+l.Unknown != rows {
			t.Errorf("%d events and %d unknown, the history has %d rows", l.Events, l.Unknown, rows)
		}
		for id, p := range s.catalogue(t, "learned") {
			if own := before[id]; p.Name != own.Name || p.Category != own.Category || p.Model != l.Model || len(p.Vector) != l.Dimensions {
				t.Fatalf("product %d: %s %s %s %d", id, p.Name, p.Category, p.Model, len(p.Vector))
			}
		}
		s.goOn(t, s.switched("learned", l), l)
	})
}

// goOn sets the other database up, makes the profiles anew and compares both.
func (s *shop) goOn(t *testing.T, next *shop, l lesson) {
	t.Helper()
	next.must(t, "setup")
	next.must(t, "user", "rebuild", "--all")
	var old, anew struct {
		Model       string `json:"embedding_model"`
		EventCount  int64  `json:"event_count"`
		LastUpdated any    `json:"last_updated"`
	}
	must.OK(t, json.Unmarshal([]byte(s.must(t, "user", "show", "1", "-o", "json")), &old))
	must.OK(t, json.Unmarshal([]byte(next.must(t, "user", "show", "1", "-o", "json")), &anew))
	if anew.Model != l.Model || old.Model != vector.HashModel || old.EventCount != anew.EventCount || old.LastUpdated != anew.LastUpdated {
		t.Errorf("%+v, and anew %+v", old, anew)
	}
	var a recommend.Answer
	must.OK(t, json.Unmarshal([]byte(next.must(t, "recommend", "1", "-o", "json")), &a))
	if a.Basis != recommend.ByProfile || len(a.Products) != 10 || len(a.Products[0].Because) == 0 {
		t.Errorf("%+v", a)
	}
	for _, p := range a.Products {
		if p.Remainder > 1e-6 || p.Remainder < -1e-6 {
			t.Errorf("product %d: %+v", p.ID, p)
		}
	}
	// A product that comes later has its text alone, and is found by it; eval asks there as in the
	// live database.
	file := filepath.Join(t.TempDir(), "new.ndjson")
	write(t, file, "{\"product_id\":77777,\"product_name\":\"Kettle of copper\",\"category\":\"Kitchen\"}\n")
	next.must(t, "products", "import", file, "--embed")
	if p := s.catalogue(t, "learned")[77777]; p.Model != l.Model || len(p.Vector) != l.Dimensions || !slices.Equal(p.Vector[dimensions:], make([]float32, 16)) {
		t.Errorf("a later product: %+v", p)
	}
	if out := next.must(t, "embed", "kettle copper", "--near=1"); !strings.Contains(out, "product 77777") {
		t.Errorf("near to its name is %s", out)
	}
	ask := []string{"eval", "--vectors", "learned", "--no-tables", "--choose=0", "-o", "json", "--components=8"}
	var live, learned evaluation.Report
	s.must(t, "products", "import", file, "--embed")
	must.OK(t, json.Unmarshal([]byte(s.must(t, ask...)), &live))
	must.OK(t, json.Unmarshal([]byte(next.must(t, ask...)), &learned))
	if live.Vectors != learned.Vectors || live.Questions == 0 || math.Abs(live.Row(live.Current).Test.HR-learned.Row(live.Current).Test.HR) > 0.01 {
		t.Errorf("eval says %s %+v, there %s %+v", live.Vectors, live.Row(live.Current), learned.Vectors, learned.Row(live.Current))
	}
	var phrase struct {
		Model      string
		Dimensions int
		Nearest    []any `json:"nearest_products"`
	}
	must.OK(t, json.Unmarshal([]byte(next.must(t, "embed", s.products[0].Name, "-o", "json")), &phrase))
	if phrase.Model != l.Model || phrase.Dimensions != l.Dimensions || len(phrase.Nearest) != 5 {
		t.Errorf("%+v", phrase)
	}
}

// The same history has the same vectors and the same name; a database with a catalogue is not
// written to, nor is the one that is read.
func TestLearnAgain(t *testing.T) {
	s := withHistory(t, outbox.SQLite, 60)
	first, second := s.learn(t, "one"), s.learn(t, "two")
	if first.Setting != second.Setting || fmt.Sprint(s.catalogue(t, "one")) != fmt.Sprint(s.catalogue(t, "two")) {
		t.Errorf("%+v, then %+v", first, second)
	}
	if again := s.learn(t, "one"); !again.Already || again.Setting != first.Setting || again.Written != 0 {
		t.Errorf("again: %+v", again)
	}
	for _, c := range []struct{ args, says string }{
		{"--into one --components=8", "the database one has a catalogue of the model " + first.Model},
		{"--into keyfold", "--into keyfold is MONGODB_DATABASE"},
		{"--into Keyfold", "--into Keyfold is MONGODB_DATABASE"},
		{"--into two --share 2", "--share 2"},
		{"--into two --components 0", "--components 0"},
		{"--into two --session-gap 0s", "--session-gap 0s"},
		{"--into three --memory-limit 64M", "WORKER_MEMORY_LIMIT"},
		{"--into three --since 1ms", "nothing can be learned"},
	} {
		code, _, errs := s.run(t, append([]string{"products", "learn"}, strings.Fields(c.args)...)...)
		if code == 0 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: code %d, %s; want %q", c.args, code, errs, c.says)
		}
	}
	// The next lesson begins with the texts of the last one.
	next := s.switched("one", first).learn(t, "three")
	if next.Model != first.Model {
		t.Errorf("learned from a learned catalogue: %+v", next)
	}
	// A name that is set up and empty may be in use.
	s.must(t, "setup", "--mongodb-database", "four")
	if code, _, errs := s.run(t, "products", "learn", "--into", "four"); code != 1 || !strings.Contains(errs, "the database four has an empty catalogue") {
		t.Errorf("code %d, %s", code, errs)
	}
}

// Settings and products of two trainings do not meet.
//
// Promise(recommend/learned-generations): A command whose EMBEDDING_LEARNED is not that of the products ends with a configuration fault that names the right one.
func TestLearnedSettingsMustFit(t *testing.T) {
	s := withHistory(t, outbox.SQLite, 60)
	l := s.learn(t, "learned")
	other := l
	other.Setting = "16:00000000"
	fits := s.switched("learned", l)
	fits.must(t, "setup")
	for name, c := range map[string]struct {
		of            *shop
		command, says string
	}{
		"another generation":  {s.switched("learned", other), "work", "set EMBEDDING_LEARNED=" + l.Setting},
		"set up with another": {s.switched("learned", other), "setup", "set EMBEDDING_LEARNED=" + l.Setting},
		"no generation":       {s.switched("learned", lesson{Dimensions: l.Dimensions}), "work", "set EMBEDDING_LEARNED=" + l.Setting},
		"the live database":   {s.switched("keyfold", l), "work", "EMBEDDING_LEARNED is \"" + l.Setting},
		"no database":         {s.switched("nothing", l), "setup", "`keyfold products learn` makes them"},
		"too many components": {s.switched("learned", lesson{Dimensions: 16, Setting: l.Setting}), "work", "fewer components than EMBEDDING_DIMENSIONS"},
	} {
		if code, _, errs := c.of.run(t, c.command); code == 0 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: code %d, %s; want %q", name, code, errs, c.says)
		}
	}
}

// An erased user's events are not learned from, nor are those of unknown products.
func TestLearnLeavesOut(t *testing.T) {
	s := withHistory(t, outbox.SQLite, 60)
	all := s.learn(t, "all")
	s.must(t, "user", "forget", "1", "--yes", "--even-if-unknown")
	if without := s.learn(t, "without"); without.Events >= all.Events || without.Users != all.Users-1 || without.Setting == all.Setting {
		t.Errorf("%+v, without user 1 %+v", all, without)
	}
	must.OK(t, s.collection(t).Database().Collection("product_embeddings").Drop(t.Context()))
	s.products = s.products[:20]
	s.importProducts(t)
	few := s.learn(t, "few")
	if few.Products != 20 || few.Unknown == 0 || few.Learned > 20 || len(s.catalogue(t, "few")) != 20 {
		t.Errorf("%+v", few)
	}
}

// A run that is killed leaves no catalogue, and the next one writes the whole of it; of two at
// once one writes, and both end with the same.
//
// Promise(recommend/learned-whole): A catalogue of learned vectors is visible when it is whole; a killed `products learn` that is run again ends with the same bytes.
func TestLearnKilledAndTwice(t *testing.T) {
	s := withHistory(t, outbox.SQLite, 60)
	want := s.learn(t, "want")
	killed := s.database(t, "killed")
	for range 3 {
		program, _ := asProcess(append([]string{"products", "learn", "--into", "killed", "--components=16"}, s.flags()...)...)
		before := names(t, killed)
		must.OK(t, program.Start())
		over := make(chan struct{})
		go func() { _ = program.Wait(); close(over) }()
		eventually(t, "it writes", func() error {
			select {
			case <-over:
				return nil
			default:
			}
			if len(names(t, killed)) == len(before) {
				return errors.New("nothing is staged")
			}
			return nil
		})
		must.OK(t, ignoreDone(program.Process.Signal(os.Kill)))
		<-over
		if got := s.catalogue(t, "killed"); len(got) != 0 && len(got) != want.Products {
			t.Fatalf("%d products of %d are visible", len(got), want.Products)
		}
	}
	done := make(chan ended, 2)
	for range 2 {
		go func() {
			done <- <-begin(t.Context(), "", append([]string{"products", "learn", "--into", "killed", "--components=16"}, s.flags()...)...)
		}()
	}
	for range 2 {
		if e := <-done; e.code != 0 || !strings.Contains(e.out, want.Setting) {
			t.Errorf("code %d: %s%s", e.code, e.out, e.errs)
		}
	}
	if fmt.Sprint(s.catalogue(t, "killed")) != fmt.Sprint(s.catalogue(t, "want")) {
		t.Error("another catalogue than that of a run that was not killed")
	}
	if left := names(t, killed); len(left) != 1 {
		t.Errorf("%v", left)
	}
}

func names(t *testing.T, of *mongo.Database) []string {
	t.Helper()
	all, err := of.ListCollectionNames(t.Context(), bson.D{})
	must.OK(t, err)
	return all
}

// ignoreDone accepts that a process has ended.
func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
