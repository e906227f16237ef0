package notifications

import "keyfold/engine/notify/quiet"

// habit is a pattern of quiet hours with the number of users of 1,000 who have it.
type habit struct {
	share int
	hours quiet.Hours
}

const (
	monday quiet.Days = 1 << (iota + 1)
	tuesday
	wednesday
	thursday
	friday
	saturday
	sunday

	weekdays = monday | tuesday | wednesday | thursday | friday
	weekend  = saturday | sunday
)

// span is a stretch of hours; half hours are fractions.
func span(days quiet.Days, from, to float64) quiet.Span {
	return quiet.Span{From: quiet.Clock(from * 60), To: quiet.Clock(to * 60), Days: days}
}

// habits are 40 patterns: none, nights of many lengths, longer weekends, two spans a
// day, shift workers, days of rest.
var habits = []habit{
	{350, nil},
	{120, quiet.Hours{span(0, 22, 7)}},
	{70, quiet.Hours{span(0, 23, 7)}},
	{50, quiet.Hours{span(0, 21, 8)}},
	{40, quiet.Hours{span(0, 0, 6)}},
	{30, quiet.Hours{span(0, 22.5, 6.5)}},
	{20, quiet.Hours{span(0, 20, 8)}},
	{20, quiet.Hours{span(0, 23, 5.5)}},
	{15, quiet.Hours{span(0, 1, 9)}},
	{10, quiet.Hours{span(0, 19, 9)}},
	{30, quiet.Hours{span(weekdays, 22, 7), span(weekend, 23, 10)}},
	{20, quiet.Hours{span(weekdays, 22, 6.5), span(weekend, 0, 11)}},
	{15, quiet.Hours{span(weekdays, 23, 7), span(weekend, 20, 10)}},
	{10, quiet.Hours{span(monday|tuesday|wednesday|thursday|sunday, 22, 7), span(friday|saturday, 1, 10)}},
	{10, quiet.Hours{span(weekdays, 21.5, 6), span(weekend, 21.5, 9)}},
	{15, quiet.Hours{span(0, 22, 7), span(0, 13, 14)}},
	{10, quiet.Hours{span(0, 22, 7), span(0, 12, 13.5)}},
	{10, quiet.Hours{span(0, 23, 6), span(weekdays, 18, 20)}},
	{10, quiet.Hours{span(weekdays, 9, 12), span(weekdays, 13, 17)}},
	{20, quiet.Hours{span(weekdays, 9, 17)}},
	{10, quiet.Hours{span(weekdays, 8, 16), span(0, 22, 6)}},
	{10, quiet.Hours{span(weekdays, 8.5, 12), span(weekdays, 13, 17.5), span(0, 23, 7)}},
	{10, quiet.Hours{span(0, 8, 16)}},                                                                        // night shifts
	{8, quiet.Hours{span(0, 9, 17), span(0, 2, 4)}},                                                          // night shifts with a break
	{6, quiet.Hours{span(monday|tuesday|wednesday, 22, 6), span(thursday|friday, 8, 16)}},                    // changing shifts
	{6, quiet.Hours{span(monday|wednesday|friday, 6, 14), span(tuesday|thursday, 14, 22)}},                   // changing shifts
	{5, quiet.Hours{span(weekdays, 20, 5)}},                                                                  // early shift
	{5, quiet.Hours{span(weekdays, 19, 3.5)}},                                                                // bakers
	{5, quiet.Hours{span(0, 3, 12)}},                                                                         // bars
	{8, quiet.Hours{span(sunday, 0, 24)}},                                                                    // Sunday is quiet
	{5, quiet.Hours{span(weekend, 0, 24)}},                                                                   // weekends are quiet
	{5, quiet.Hours{span(friday, 18, 24), span(saturday, 0, 21)}},                                            // Sabbath
	{6, quiet.Hours{span(0, 22, 7), span(sunday, 7, 12)}},                                                    // Sunday mornings
	{6, quiet.Hours{span(0, 12.5, 13), span(0, 19, 19.5), span(0, 22, 6)}},                                   // meals
	{5, quiet.Hours{span(0, 5, 5.5), span(0, 13, 13.5), span(0, 16, 16.5), span(0, 19, 19.5)}},               // prayers
	{5, quiet.Hours{span(weekdays, 7.5, 8.5), span(weekdays, 17, 18)}},                                       // on the way to work
	{5, quiet.Hours{span(0, 18, 7)}},                                                                         // evenings with children
	{5, quiet.Hours{span(0, 9, 8)}},                                                                          // one hour a day
	{5, quiet.Hours{span(weekdays, 8, 18), span(0, 22, 7)}},                                                  // at school
	{5, quiet.Hours{span(monday, 22, 8), span(wednesday, 14, 16), span(friday, 23, 9), span(sunday, 9, 20)}}, // each day its own
}
