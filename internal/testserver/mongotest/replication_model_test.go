package mongotest

import (
	"maps"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"keyfold/internal/testserver/must"
)

// Whatever is written, held up, let go and rolled back: local reads see the
// newest state, majority reads the committed one, by index as well as by scan.
func TestReplicationEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := newStore()
		defer st.replication.close()
		c := st.ensure("db.c")
		must.OK(t, c.addIndex(newIndex("u", "u", value{}, true)))
		must.OK(t, c.addIndex(newIndex("k", "k", value{}, false)))
		w := &writer{store: st}
		local, committed := map[int32]int32{}, map[int32]int32{} // u -> k
		stalled := false
		user := rapid.Int32Range(0, 4)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				u, k := user.Draw(t, "user"), rapid.Int32Range(0, 2).Draw(t, "k")
				doc := encode(t, bson.D{{Key: "_id", Value: u}, {Key: "u", Value: u}, {Key: "k", Value: k}})
				r := &record{}
				for _, found := range c.matching(equalTo(t, "u", u), 1) {
					r = found
				}
				must.OK(t, c.write(w, r, doc, nil))
				local[u] = k
			},
			"delete": func(t *rapid.T) {
				u := user.Draw(t, "user")
				for _, r := range c.matching(equalTo(t, "u", u), 0) {
					must.OK(t, c.write(w, r, nil, nil))
				}
				delete(local, u)
			},
			"stall":     func(*rapid.T) { st.replication.setMode(true, 0); stalled = true },
			"replicate": func(*rapid.T) { st.replication.setMode(false, 0); stalled = false },
			"roll back": func(t *rapid.T) {
				if _, err := st.rollBack(func() {}); err != nil {
					t.Fatal(err)
				}
				local, stalled = maps.Clone(committed), false
			},
			"": func(t *rapid.T) {
				if !stalled {
					committed = maps.Clone(local)
					if len(c.dirty) > 0 {
						t.Fatalf("%d records keep a past", len(c.dirty))
					}
				}
				check(t, c, local, false)
				check(t, c, committed, true)
			},
		})
	})
}

func equalTo(t *rapid.T, field string, v int32) *filter {
	f, err := parseFilter(encode(t, one(field, v)))
	must.OK(t, err)
	return f
}

func check(t *rapid.T, c *collection, want map[int32]int32, majority bool) {
	view := func(f *filter) map[int32]int32 {
		got := map[int32]int32{}
		for _, doc := range c.find(f, 0, majority) {
			got[lookup(doc, "u").Int32()] = lookup(doc, "k").Int32()
		}
		return got
	}
	if got := view(&filter{}); !maps.Equal(got, want) {
		t.Fatalf("scan (majority %v): %v, want %v", majority, got, want)
	}
	for v := range int32(5) {
		byUser, byK := map[int32]int32{}, map[int32]int32{}
		for u, k := range want {
			if u == v {
				byUser[u] = k
			}
			if k == v {
				byK[u] = k
			}
		}
		if got := view(equalTo(t, "u", v)); !maps.Equal(got, byUser) {
			t.Fatalf("user %d (majority %v): %v, want %v", v, majority, got, byUser)
		}
		if got := view(equalTo(t, "k", v)); !maps.Equal(got, byK) {
			t.Fatalf("k %d (majority %v): %v, want %v", v, majority, got, byK)
		}
	}
}
