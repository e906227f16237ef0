package notify

// repeats and nearlyRepeats are the stages of exact and near duplicates. They compare the
// event with the marks of others of its type, newest first.
func (d *decision) repeats() bool { return d.repeatOf(d.repeated(false), ReasonDuplicate) }

func (d *decision) nearlyRepeats() bool {
	return d.policy.Near && d.repeatOf(d.repeated(true), ReasonNearDuplicate)
}

func (d *decision) repeatOf(m *Mark, reason string) bool {
	if m == nil {
		return false
	}
	d.record.DuplicateOf = m.EventID
	return d.never(reason)
}

// repeated returns the newest mark that is of the event's type, within the window
// and the same, or nearly the same; nil where there is none. The event's own mark is
// not compared.
func (d *decision) repeated(nearly bool) *Mark {
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
		if !nearly && d.event.Print.Same(m.Print) || nearly && d.near(m) {
			return m
		}
	}
	return nil
}

func (d *decision) near(m *Mark) bool {
	measure, near := d.event.Print.Near(m.Print)
	if near {
		d.record.Facts.Measure = measure
	}
	return near
}
