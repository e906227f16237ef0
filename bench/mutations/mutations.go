package main

// mutation takes one rule out of the code.
type mutation struct {
	name  string
	rule  string
	by    string // what has to notice: "sim", "soak" or "tests"
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
		name: "settle-twice", by: "tests",
		rule: "a delivery has one verdict",
		edits: []edit{{
			"engine/delivery.go",
			"if o.settled.CompareAndSwap(false, true) {",
			"{",
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
}
