package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/profile/explanation"
	"keyfold/service/profile/users"
)

// nearView is a list of nearest products.
type nearView struct {
	Fault  string // why nothing of it is known
	Proof  string
	Note   string
	Places []place
	Gone   []string // that were among the first before
	Since  time.Time
	Of     string // what the list is compared with
	First  bool   // it is compared with nothing
	Moves  bool   // a product has another place
}

// otherwise is the list of a profile that was folded otherwise.
type otherwise struct {
	Line string
	nearView
}

// place is a product in a list.
type place struct {
	ID, Title, Cosine string
	Place             int
	Width             string // of a bar, per cent
	Move              string // up, down, new or ""
	Moved             string // in words
	Because           []string
}

// nearest lists the nearest products, with what the last write changed. Where the profile cannot
// be explained they are those of `user show`.
func (d *Dashboard) nearest(ctx context.Context, v *userView, shown *users.ProfileView, now explanationOf) nearView {
	if now.view == nil {
		n := nearView{Fault: "which events put products there is not known: " + now.fault}
		r := d.results.get(ctx, resultKey{v.ID, shown.Profile.Version, "near"}, func(ctx context.Context) (any, error) {
			return d.sources.Users.Show(ctx, v.ID, nearShown, 0)
		})
		if r != nil && r.err == nil {
			for i, one := range r.value.(Shown).View.Near {
				title := cmp.Or(one.Product.Name, fmt.Sprintf("product %d", one.Product.ID))
				n.Places = append(n.Places, plainPlace(listNow, explanation.Near{ProductID: one.Product.ID, Title: title, Cosine: one.Cosine}, i+1))
			}
		}
		return n
	}
	n := nearView{Proof: now.view.Proof(), Note: now.view.Note}
	var before []explanation.Near
	if len(now.view.WhatIf) > 0 && now.view.WhatIf[0].Events > 0 {
		before = now.view.WhatIf[0].Nearest
		groups := shown.Profile.Applied.Groups
		n.Since = groups[len(groups)-1].At.Time()
		n.Of, n.First = cli.Count(int64(now.view.WhatIf[0].Events), "event"), len(before) == 0
	}
	n.compare(listNow, now.view.Nearest, before)
	return n
}

// listNow names the list of the profile as it is, in ids of elements.
const listNow = "p"

// compare fills in a list, and where its products were in another.
func (n *nearView) compare(list string, now, before []explanation.Near) {
	for _, m := range explanation.Moves(now[:min(nearShown, len(now))], before) {
		one := plainPlace(list, m.Near, m.Place)
		if len(before) > 0 {
			one.move(m, list != listNow)
			n.Moves = n.Moves || one.Move != ""
		}
		n.Places = append(n.Places, one)
	}
	for _, gone := range explanation.Gone(now, before, nearShown) {
		n.Gone = append(n.Gone, gone.Title)
	}
}

func plainPlace(list string, near explanation.Near, at int) place {
	p := place{
		ID: fmt.Sprintf("%s%d", list, near.ProductID), Title: near.Title, Place: at,
		Cosine: fmt.Sprintf("%.3f", near.Cosine), Width: width(near.Cosine),
	}
	for _, part := range near.Because {
		p.Because = append(p.Because, part.Reason())
	}
	return p
}

// move says how a product came to its place. Of a list that was asked for it says no reason.
func (p *place) move(m explanation.Move, asked bool) {
	why := ""
	switch {
	case asked:
	case m.Nearer && m.Newest != nil:
		of := m.Newest.Type + " " + m.Newest.Of
		if m.Newest.Events > 1 {
			of = cli.Count(int64(m.Newest.Events), "event") + ", most from " + of
		}
		why = ": " + explanation.Percent(m.Newest.Share) + " of it from " + of
	case m.Was > m.Place:
		why = ": others fell further"
	}
	switch {
	case m.Was == 0:
		p.Move, p.Moved = "new", fmt.Sprintf("new, was not among the first %d%s", nearKnown, why)
	case m.Was > m.Place:
		p.Move, p.Moved = "up", fmt.Sprintf("up from %d%s", m.Was, why)
	case m.Was < m.Place && !asked && m.Nearer:
		p.Move, p.Moved = "down", fmt.Sprintf("down from %d: others came nearer still", m.Was)
	case m.Was < m.Place && !asked:
		p.Move, p.Moved = "down", fmt.Sprintf("down from %d: the last write led away from it", m.Was)
	case m.Was < m.Place:
		p.Move, p.Moved = "down", fmt.Sprintf("down from %d", m.Was)
	}
}

// width is a share as the length of a bar.
func width(share float64) string { return fmt.Sprintf("%.1f", 100*min(max(share, 0), 1)) }

// answer shows the profile as it was asked for.
func (v *userView) answer(asked explanationOf, now *explanation.View) {
	if asked.view == nil || now == nil {
		v.Asked = []otherwise{{nearView: nearView{Fault: asked.fault}}}
		return
	}
	for i, what := range asked.view.WhatIf {
		one := otherwise{Line: what.What}
		if what.Events > 0 {
			one.Line += " (" + cli.Count(int64(what.Events), "event") + ")"
		}
		if what.Cosine == 0 && len(what.Nearest) == 0 {
			one.Line += ": nothing is left"
		} else {
			one.Line += fmt.Sprintf(": cosine %.4f to the stored vector", what.Cosine)
			one.compare(fmt.Sprintf("a%d-", i), what.Nearest, now.Nearest)
		}
		v.Asked = append(v.Asked, one)
	}
}
