package engine

import "time"

// Earliest is the first instant that an event may have: the year 1000, before
// which SQL's DATETIME columns keep nothing.
const Earliest Millis = -30610224000000

// dateTime is the shape of a timestamp before its fraction and offset.
const dateTime = "0000-00-00T00:00:00"

// ParseTimestamp reads an RFC 3339 timestamp, also with its offset as ISO 8601
// writes it in the basic format (+hhmm, which is what PHP's
// DateTimeInterface::ISO8601 prints), and truncates it to milliseconds towards
// the past. The T and Z are upper case; the fraction may have any number of
// digits; there is no hour 24 and no leap second. Its errors are [Permanent] and
// name no field.
func ParseTimestamp(text []byte) (Millis, error) {
	at, complete, ok := timestamp(text)
	switch {
	case !ok:
		return 0, badTimestamp(text)
	case !complete:
		return 0, Refuse(ReasonTimestampNoOffset, "found %s without an offset, expected Z or +hh:mm at its end", Quoted(text))
	}
	return at, nil
}

// InstantOf is [ParseTimestamp] for texts of which many are no timestamps, and for dates:
// 2026-02-10 is its midnight in UTC. It does not allocate.
func InstantOf(text string) (at Millis, ok bool) {
	var buffer [64]byte // more digits of a fraction than anyone writes
	n := copy(buffer[:], text)
	if n < len(text) {
		return 0, false
	}
	if n == len("2026-02-10") {
		n += copy(buffer[n:], "T00:00:00Z")
	}
	at, complete, ok := timestamp(buffer[:n])
	return at, ok && complete
}

// timestamp reads a timestamp. It is complete with an offset.
func timestamp(text []byte) (at Millis, complete, ok bool) {
	if len(text) < len(dateTime) || !shaped(text[:len(dateTime)], dateTime) {
		return 0, false, false
	}
	year, month, day := decimal(text[0:4]), decimal(text[5:7]), decimal(text[8:10])
	hour, minute, second := decimal(text[11:13]), decimal(text[14:16]), decimal(text[17:19])
	date := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	// time.Date carries what is out of range over into the next larger unit: a
	// day that does not exist into another month.
	if date.Month() != time.Month(month) || hour > 23 || minute > 59 || second > 59 {
		return 0, false, false
	}
	millis, rest, ok := fraction(text[len(dateTime):])
	if !ok || len(rest) == 0 {
		return 0, false, ok
	}
	minutes, ok := offset(rest)
	return Millis((date.Unix()-int64(minutes)*60)*1000 + int64(millis)), true, ok
}

// fraction reads the fraction of a second, if there is one, as milliseconds.
func fraction(text []byte) (millis int, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '.' {
		return 0, text, true
	}
	end, unit := 1, 100
	for ; end < len(text) && isDigit(text[end]); end++ {
		millis += int(text[end]-'0') * unit
		unit /= 10 // 0 from the fourth digit on: those are cut off
	}
	return millis, text[end:], end > 1
}

// offset reads Z, ±hh:mm or ±hhmm as minutes east of UTC.
func offset(text []byte) (minutes int, ok bool) {
	if len(text) == 1 && text[0] == 'Z' {
		return 0, true
	}
	if !shaped(text[1:], "00:00") && !shaped(text[1:], "0000") {
		return 0, false
	}
	hour, minute := decimal(text[1:3]), decimal(text[len(text)-2:])
	if hour > 23 || minute > 59 {
		return 0, false
	}
	switch text[0] {
	case '+':
		return hour*60 + minute, true
	case '-':
		return -hour*60 - minute, true
	default:
		return 0, false
	}
}

// shaped reports whether text is shape with digits for its zeros.
func shaped(text []byte, shape string) bool {
	if len(text) != len(shape) {
		return false
	}
	for i, c := range text {
		if shape[i] == '0' && !isDigit(c) || shape[i] != '0' && shape[i] != c {
			return false
		}
	}
	return true
}

// decimal returns the value of a few digits.
func decimal(digits []byte) int {
	n := 0
	for _, c := range digits {
		n = n*10 + int(c-'0')
	}
	return n
}

func badTimestamp(text []byte) error {
	return Refuse(ReasonBadTimestamp, "found %s, expected an existing time in RFC 3339, like 2026-02-10T14:30:00+00:00", Quoted(text))
}

func isDigit(c byte) bool { return c-'0' <= 9 }
