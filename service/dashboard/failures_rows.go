package dashboard

import (
	"html/template"
	"net/url"
	"strconv"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/failed"
)

// page shows one page of the letters.
func (v *failuresView) page(d *Dashboard, all []*failed.Brief, now time.Time) {
	pages := max(1, (len(all)+failuresShown-1)/failuresShown)
	n := min(v.Ask.Page, pages)
	v.Ask.Page, v.Pages = n, pages
	met := map[failed.Brief]int{}
	v.From, v.To = min(len(all), (n-1)*failuresShown+1), min(len(all), n*failuresShown)
	for _, b := range all[max(0, v.From-1):v.To] {
		v.Rows = append(v.Rows, d.failureRow(b, met[*b], now))
		met[*b]++
	}
	fit(v.Rows)
	for _, to := range []struct {
		n    int
		name string
	}{{1, "first"}, {n - 1, "previous"}, {n + 1, "next"}, {pages, "last"}} {
		if pages > 1 {
			v.Links = append(v.Links, link{Path: v.Ask.path(min(max(to.n, 1), pages)), Name: to.name, Here: to.n == n || to.n < 1 || to.n > pages})
		}
	}
}

// failureRow is one line. same is how many such lines stand before it: an event that was retried
// in vain has several letters.
func (d *Dashboard) failureRow(b *failed.Brief, same int, now time.Time) failureRow {
	l := b.Letter()
	row := failureRow{
		ID: identifier("failure", b.Where, b.ID, strconv.FormatInt(b.LastFailure().UnixMilli(), 10), strconv.Itoa(same)), Path: letterPath(b.Where, b.Key()),
		Where: b.Where, Cells: l.Row(now), At: l.LastFailure,
	}
	if id, ok := userID(l.User); ok && d.sources.Users != nil && (b.Where == failed.Broker || b.Where == failed.SQL) {
		row.User = userPath + strconv.Itoa(int(id))
	}
	return row
}

// How many bytes the texts of a list, and of a table, may have at most: a page of the longest texts
// stays within its bound.
const (
	heaviestList  = 2 << 10
	heaviestTable = 8 << 10
	heaviestRows  = 20 << 10
)

func escaped(text string) int { return len(template.HTMLEscapeString(text)) }

// fit cuts the texts of rows that are too long together.
func fit(rows []failureRow) {
	const failedAt = 5
	for _, most := range []int{60, 24, 12} {
		weight := 0
		for i := range rows {
			for column, cell := range rows[i].Cells {
				if column != failedAt {
					rows[i].Cells[column] = cli.Shorten(cell, most)
				}
				weight += escaped(rows[i].Cells[column])
			}
		}
		if weight <= heaviestRows {
			return
		}
	}
}

func letterPath(where, key string) string {
	return failurePath + url.PathEscape(key) + "?" + url.Values{"where": {where}}.Encode()
}
