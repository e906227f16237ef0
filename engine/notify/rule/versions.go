package rule

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"keyfold/engine/notify"
)

// CheckVersions names rules of the next document that differ from the previous one's
// rule of the same rule_id and have no higher version, and rules that are gone: records
// name them, so that they are disabled instead.
func CheckVersions(previous, next *Document) (faults Faults) {
	for i := range previous.Rules {
		old := &previous.Rules[i]
		at := slices.IndexFunc(next.Rules, func(r Rule) bool { return r.ID == old.ID })
		if at < 0 {
			faults = append(faults, Fault{
				Rule: old.Name, Path: "$.rules",
				Text: fmt.Sprintf("the rule %s is gone, but records name it: keep it and set enabled to false", old.ID),
			})
			continue
		}
		if rule := &next.Rules[at]; rule.differs(old) && !higher(rule.Version, old.Version) {
			faults = append(faults, Fault{
				Rule: rule.Name, Path: fmt.Sprintf("$.rules[%d].version", at),
				Text: fmt.Sprintf("the rule has changed, and its version %s is not above %s: raise it", rule.Version, old.Version),
			})
		}
	}
	return faults
}

// differs compares all but the version and who set it when.
func (r Rule) differs(old *Rule) bool {
	r.Version, r.UpdatedBy, r.CreatedAt, r.UpdatedAt = old.Version, old.UpdatedBy, old.CreatedAt, old.UpdatedAt
	return !reflect.DeepEqual(&r, old)
}

// higher reports whether one version of three numbers is above another.
func higher(a, b string) bool {
	return slices.Compare(numbers(a), numbers(b)) > 0
}

func numbers(version string) (all []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part) // the reader has checked it
		all = append(all, n)
	}
	return all
}

var _ notify.Rules = (*Program)(nil)
