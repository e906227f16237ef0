package notifications

import (
	"time"

	"keyfold/engine/notify"
)

// kind is what a notification is about.
type kind uint8

const (
	placed kind = iota + 1
	status
	shipped
	parcel
	delivered
	refund
	answered
	cart
	review
	failed
	delay
	stock
	price
	campaign
	last
	code
	signIn
	support
	maintenance
	weekly
	picks
	kindCount = iota + 1
)

// service says how the service that sends a kind does it.
type service struct {
	name     string // in texts.txt
	kind     notify.EventType
	source   string
	channels []notify.Channel
	hint     notify.Hint
	expires  time.Duration // 0: never
	// identity is the metadata member that says what the notification is about, ""
	// where the service sends none.
	identity string
	key      dedupe
}

// dedupe is how a service makes dedupe_keys.
type dedupe uint8

const (
	noKey       dedupe = iota
	goodKey            // one for each thing
	sparseKey          // one for each thing, of six events of ten
	unreliable         // one for each user: different things share it
	campaignKey        // one for each broadcast
)

var (
	push      = []notify.Channel{notify.Push, notify.InApp}
	pushEmail = []notify.Channel{notify.Push, notify.Email}
	email     = []notify.Channel{notify.Email}
	emailApp  = []notify.Channel{notify.Email, notify.InApp}
	urgent    = []notify.Channel{notify.SMS, notify.Push}
	inApp     = []notify.Channel{notify.InApp}
)

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

var services = [kindCount]service{
	placed:      {"placed", notify.Update, "orders", emailApp, 0, 0, "order_id", goodKey},
	status:      {"status", notify.Update, "orders", inApp, notify.Low, day, "order_id", noKey},
	shipped:     {"shipped", notify.Update, "shipping", pushEmail, notify.Medium, 0, "order_id", sparseKey},
	parcel:      {"parcel", notify.Update, "shipping", push, notify.Medium, 3 * day, "order_id", sparseKey},
	delivered:   {"delivered", notify.Update, "shipping", push, notify.High, 2 * day, "order_id", noKey},
	refund:      {"refund", notify.Update, "payments", email, 0, 0, "order_id", sparseKey},
	answered:    {"answered", notify.Update, "community", push, notify.Low, 7 * day, "entity_id", noKey},
	cart:        {"cart", notify.Reminder, "carts", pushEmail, notify.Low, 2 * day, "entity_id", unreliable},
	review:      {"review", notify.Reminder, "reviews", emailApp, notify.Low, 7 * day, "order_id", goodKey},
	failed:      {"failed", notify.Alert, "payments", urgent, notify.High, day, "order_id", noKey},
	delay:       {"delay", notify.Alert, "shipping", pushEmail, notify.High, 2 * day, "order_id", noKey},
	stock:       {"stock", notify.Alert, "stock", push, notify.Medium, 12 * hour, "entity_id", noKey},
	price:       {"price", notify.Promo, "pricing", push, 0, day, "entity_id", sparseKey},
	campaign:    {"campaign", notify.Promo, "campaigns", pushEmail, notify.Low, 2 * day, "", campaignKey},
	last:        {"last", notify.Promo, "campaigns", push, notify.Medium, 8 * hour, "", campaignKey},
	code:        {"code", notify.Security, "identity", urgent, notify.Critical, 10 * time.Minute, "", noKey},
	signIn:      {"signin", notify.Security, "identity", emailApp, notify.High, 0, "", noKey},
	support:     {"support", notify.Message, "support", push, notify.High, 0, "thread_id", goodKey},
	maintenance: {"maintenance", notify.System, "platform", inApp, 0, 2 * day, "", campaignKey},
	weekly:      {"weekly", notify.Digest, "digests", email, notify.Low, 2 * day, "", sparseKey},
	picks:       {"picks", notify.Digest, "recommendations", emailApp, notify.Low, 12 * hour, "", noKey},
}
