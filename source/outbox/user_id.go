package outbox

import (
	"database/sql"
	"math"
	"strconv"
)

// userID is a user_id as it was read. The column of a table that was taken over may hold
// numbers that no event has.
type userID struct {
	id   int32  // 0 where the column's is none
	text string // the column's where it is none
}

// Scan reads a column.
func (u *userID) Scan(value any) error {
	if n, ok := value.(int64); ok && n >= math.MinInt32 && n <= math.MaxInt32 {
		*u = userID{id: int32(n)}
		return nil
	}
	var text sql.NullString
	if err := text.Scan(value); err != nil {
		return err
	}
	n, err := strconv.ParseInt(text.String, 10, 32)
	if *u = (userID{id: int32(n)}); err != nil {
		*u = userID{text: text.String}
		if !text.Valid {
			u.text = "NULL"
		}
	}
	return nil
}

// wide is the number, or the nearest one of an int64; 0 for no whole number.
func (u userID) wide() int64 {
	if u.text == "" {
		return int64(u.id)
	}
	n, _ := strconv.ParseInt(u.text, 10, 64)
	return n
}

// fault says that a row has no user; nil where it has one.
func (u userID) fault(row int64) error {
	if u.text == "" {
		return nil
	}
	return rejected("user_interactions row %d: the user id %s is out of range", row, u.text)
}
