package metric

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var bucketEnd = regexp.MustCompile(`le="([^"]*)"`)

// Quantile returns the bound of the bucket that a quantile of a histogram is in, of what was
// observed since before; nil where nothing was. Above all bounds it is the highest one.
func Quantile(now, before map[string]float64, histogram string, q float64) *float64 {
	type bucket struct{ end, total float64 }
	var buckets []bucket
	for name, total := range now {
		if found := bucketEnd.FindStringSubmatch(name); found != nil && strings.HasPrefix(name, histogram+"_bucket{") {
			if end, err := strconv.ParseFloat(found[1], 64); err == nil {
				buckets = append(buckets, bucket{end, total - before[name]})
			}
		}
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.end, b.end) })
	if len(buckets) == 0 || buckets[len(buckets)-1].total <= 0 {
		return nil
	}
	highest, rank := 0.0, q*buckets[len(buckets)-1].total
	for _, b := range buckets {
		if !math.IsInf(b.end, 1) {
			highest = b.end
		}
		if b.total >= rank {
			break
		}
	}
	return &highest
}
