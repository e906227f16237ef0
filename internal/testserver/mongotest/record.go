package mongotest

// record is one document with what is still needed of its past. Documents are
// never changed in place: a reader may keep one.
type record struct {
	position int
	raw      document // the newest version; nil for a deleted one
	seq      uint64   // of the write that made it, 0 before the first
	// past holds older versions, oldest first, while a newer one has not
	// reached a majority.
	past []version
}

type version struct {
	raw document
	seq uint64
}

// committed returns the version a majority has, nil where there is none.
func (r *record) committed(upTo uint64) document {
	if r.seq <= upTo {
		return r.raw
	}
	for i := len(r.past) - 1; i >= 0; i-- {
		if r.past[i].seq <= upTo {
			return r.past[i].raw
		}
	}
	return nil
}

// trim drops the versions that no read can ask for any more, and reports whether
// the newest is committed.
func (r *record) trim(upTo uint64) bool {
	if r.seq <= upTo {
		r.past = nil
		return true
	}
	for len(r.past) > 1 && r.past[1].seq <= upTo {
		r.past = r.past[1:]
	}
	return false
}
