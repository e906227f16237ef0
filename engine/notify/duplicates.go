package notify

// repeats and nearlyRepeats are the stages of exact and near duplicates. They compare the
// event with the marks of others of its type, newest first.
func (d *decision) repeats() bool { return d.repeatOf(d.repeated(), ReasonDuplicate) }

func (d *decision) nearlyRepeats() bool {
	d.record.Facts.Measure = d.nearBy
	return d.repeatOf(d.nearMark, ReasonNearDuplicate)
}

func (d *decision) repeatOf(m *Mark, reason string) bool {
	if m == nil {
		return false
	}
	d.record.DuplicateOf = m.EventID
	return d.never(reason)
}

// repeated returns the newest mark that is of the event's type, within the window and the
// same; nil where there is none. On the way it finds the newest one that is nearly the same,
// because a user may have many marks. The event's own mark is not compared.
func (d *decision) repeated() *Mark {
	if d.policy.DuplicateWindow == 0 || d.event.Follows != nil {
		return nil
	}
	after := d.now - d.policy.DuplicateWindow
	for i := len(d.state.Marks) - 1; i >= 0; i-- {
		m := &d.state.Marks[i]
		if m.Type != d.event.Type || m.At <= after || m.EventID == d.event.ID {
			continue
		}
		if d.policy.ByKeyOnly && !d.event.Print.SameKey(m.Print) {
			continue
		}
		if d.event.Print.Same(m.Print) {
			return m
		}
		if d.policy.Near && d.nearMark == nil {
			d.nearly(m)
		}
	}
	return nil
}

// nearly keeps a mark that is nearly the same.
func (d *decision) nearly(m *Mark) {
	if measure, near := d.event.Print.Near(m.Print); near {
		d.nearMark, d.nearBy = m, measure
	}
}
