package main

// mutation takes one rule out of the code.
type mutation struct {
	name  string
	rule  string
	by    string // what has to notice: "sim", "soak" or "tests"
	tests string // by tests: what `go test` gets to notice it with
	edits []edit
}

// edit replaces a piece of a file that stands there exactly once.
type edit struct{ file, old, new string }

// mutations are the rules that hold "nothing lost, nothing twice" together.
var mutations = []mutation{
	{
		name: "dedup", by: "sim",
		rule: "an event whose id is in the profile is not folded again",
		edits: []edit{{
			"engine/screen.go",
			"if s.shrink(applied) {",
			"if s.shrink(Applied{}) {",
		}},
	},
	{
		name: "version", by: "sim",
		rule: "a write that met another version was not made",
		edits: []edit{{
			"engine/taste/flush.go",
			"if errors.Is(err, engine.ErrConflict) {\n",
			"if errors.Is(err, engine.ErrConflict) {\n\t\tf.written(w, began)\n\t\treturn nil\n",
		}},
	},
	{
		name: "version-filter", by: "sim",
		rule: "an update names the version it was made for",
		edits: []edit{{
			"sink/mongodb/encode.go",
			"\tdst = bsoncore.AppendInt32Element(dst, fieldVersion, p.Version-1)\n",
			"",
		}},
	},
	{
		name: "generation", by: "sim",
		rule: "a tag is settled in the session that delivered it, or not at all",
		edits: []edit{
			{"source/rabbit/consumer.go", "\tgeneration atomic.Uint64\n", "\tgeneration atomic.Uint64\n\tcurrent    atomic.Pointer[session]\n"},
			{"source/rabbit/session.go", "\tc.Stats.Connects.Add(1)\n\treturn s, nil\n", "\tc.Stats.Connects.Add(1)\n\tc.current.Store(s)\n\treturn s, nil\n"},
			{"source/rabbit/settle.go", "if !t.lane.acks.settle(t.tag) {", "if !t.session.consumer.current.Load().lanes[t.lane.index].acks.settle(t.tag) {"},
		},
	},
	{
		name: "confirm", by: "sim",
		rule: "an event is acknowledged when its copy is confirmed, not when it is written",
		edits: []edit{{
			"source/rabbit/confirm.go",
			"acked, err := f.confirm.WaitContext(ctx)",
			"acked, err := true, error(nil)",
		}},
	},
	{
		name: "majority", by: "sim",
		rule: "a duplicate is concluded from what a majority has",
		edits: []edit{{
			"sink/mongodb/config.go",
			"SetReadConcern(readconcern.Majority())",
			"SetReadConcern(readconcern.Local())",
		}},
	},
	{
		name: "one-in-flight", by: "sim",
		rule: "a user has one write in flight",
		edits: []edit{
			{"shard/window.go", "\tbusy       bool", "\tflights    int\n\tbusy       bool"},
			{
				"shard/table.go",
				"\t\tl.busy = true\n\t\ttaken = append(taken, l.pop())\n",
				"\t\tl.flights++\n\t\ttaken = append(taken, l.pop())\n\t\tif l.head != nil && l.head.trigger != 0 {\n\t\t\tt.ready.push(l)\n\t\t}\n",
			},
			{
				"shard/table.go",
				"\t\tl.busy = false\n\t\tswitch {\n\t\tcase l.head == nil:\n\t\t\tdelete(t.lanes, l.key)\n\t\t\tt.freeLane(l)\n" +
					"\t\tcase l.head.trigger != 0:\n\t\t\tt.ready.push(l)\n\t\t}\n",
				"\t\tl.flights--\n\t\tif l.head == nil && l.flights == 0 {\n\t\t\tdelete(t.lanes, l.key)\n\t\t\tt.freeLane(l)\n\t\t}\n",
			},
		},
	},
	{
		name: "horizon", by: "sim",
		rule: "no id younger than the horizon is dropped",
		edits: []edit{{
			"engine/applied.go",
			"old, total := a.beyondHorizon(now, limits), len(a.IDs)+added",
			"old, total := len(a.Groups), len(a.IDs)+added",
		}},
	},
	{
		name: "pause", by: "tests", tests: "-run Absence$|^TestAPause ./engine ./engine/taste",
		rule: "a pause between two writes ages ids by a tenth of the horizon at most",
		edits: []edit{{
			"engine/applied.go",
			"age += min(now-g.At, gap)",
			"age += max(now-g.At, 0*gap)",
		}},
	},
	{
		name: "lease", by: "tests", tests: "-run ^TestAFrozen|^TestUnknownWriteWhile ./engine/taste",
		rule: "an event is folded within its lease, or not at all",
		edits: []edit{{
			"engine/taste/fold.go",
			"if f.config.Lease == 0 {",
			"if f.config.Lease >= 0 {",
		}},
	},
	{
		name: "session-lease", by: "tests", tests: "-run ^TestOverdue ./source/rabbit",
		rule:  "a delivery that is not settled within its lease ends its session",
		edits: []edit{{"source/rabbit/session.go", "if c.config.Lease > 0 {", "if c.config.Lease < 0 {"}},
	},
	{
		name: "store-clock", by: "tests", tests: "-run ^TestAClockAhead$ ./engine/taste",
		rule: "the time of ids is the store's",
		edits: []edit{{
			"engine/taste/flush.go",
			"\tnow, err := f.ports.Profiles.Now(f.ctx)\n",
			"\tnow, err := engine.Now(), error(nil)\n",
		}},
	},
	{
		name: "bound", by: "tests", tests: "-run ^TestUnknownWriteKeeps ./engine/taste",
		rule:  "after an unknown write no later look says that an event is not folded",
		edits: []edit{{"engine/taste/work.go", "\tcase w.unknown:\n", "\tcase false:\n"}},
	},
	{
		name: "look", by: "tests", tests: "-run ^TestParking ./engine/taste",
		rule:  "what comes again is looked up in the store, not in the cache",
		edits: []edit{{"engine/taste/fold.go", "if !w.fresh && f.comesAgain(w, room) {", "if false && f.comesAgain(w, room) {"}},
	},
	{
		name: "settle-twice", by: "tests", tests: "-failfast -timeout 5m -run SettledTwice ./engine ./source/inbox ./source/rabbit",
		rule:  "a delivery has one verdict",
		edits: []edit{{"engine/delivery.go", "if o.settled.CompareAndSwap(false, true) {", "{"}},
	},
	{
		name: "cleaned-ids", by: "tests", tests: "-run ^TestCleanedUpEvents ./source/outbox",
		rule:  "an event whose row was cleaned up is still a duplicate",
		edits: []edit{{"source/outbox/cleanup.go", "if err != nil || len(keys) == 0 {", "if err == nil {"}},
	},
	{
		name: "tried", by: "tests", tests: "-run ^TestRelayedCopiesSaySinceWhen$ ./cmd/keyfold",
		rule:  "a row that was published before says since when",
		edits: []edit{{"cmd/keyfold/database.go", "since := rows[i].TriedAt\n", "since := 0 * rows[i].TriedAt\n"}},
	},
	{
		name: "other-key", by: "tests", tests: "-run ^TestADuplicateIsOfThisUserAndId$ ./source/outbox",
		rule: "a duplicate of another unique key than keyfold's is no duplicate",
		edits: []edit{{
			"source/outbox/insert.go",
			"\t\tagain := d.insertRows(ctx, tx, row)\n",
			"\t\treturn nil\n\t\tagain := d.insertRows(ctx, tx, row)\n",
		}},
	},
	{
		name: "durable", by: "tests", tests: "-run ^TestAReusedIDIsNotMarked$ ./source/outbox",
		rule: "rows are published once they are durable, and marked by their message ids",
		edits: []edit{
			{"source/outbox/batch.go", "return noted == int64(len(fresh)), nil", "return noted <= int64(len(fresh)), nil"},
		},
	},
	{
		name: "cleanup", by: "tests", tests: "-run ^TestCleanup ./source/outbox",
		rule: "cleanup picks rows that are marked as sent",
		edits: []edit{{
			"source/outbox/cleanup.go",
			`" WHERE processed_to_queue = 1 AND occurred_at >= ?`,
			`" WHERE occurred_at >= ?`,
		}},
	},
	{
		name: "tokens", by: "tests", tests: "-run ^TestTokenRotation$ ./source/ingest",
		rule:  "a token that the file does not list any more is refused",
		edits: []edit{{"source/ingest/guard.go", "strict: true", "strict: false"}},
	},
	{
		name: "shares", by: "tests", tests: "-run OfOneSender$ ./source/ingest",
		rule:  "one sender leaves as much free as it holds",
		edits: []edit{{"source/ingest/shares.go", " || held > 0 && held+n > s.free-n", ""}},
	},
}
