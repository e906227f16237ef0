package similar

import (
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func isNear(a, b Print) bool {
	_, ok := a.Near(b)
	return ok
}

func TestContent(t *testing.T) {
	base := Of("PROMO", "Blue  Lamp", "Now cheaper", []string{"1", "2"}, "")
	for _, same := range []Print{
		Of("PROMO", " blue lamp\n", "NOW\u00a0CHEAPER", []string{"1", "2"}, "key"),
		Of("PROMO", "Blue\tLamp", "Now cheaper ", []string{"1", "2"}, ""),
	} {
		if !base.Same(same) || base.Content() != same.Content() {
			t.Error("another content in the same normal form")
		}
	}
	if !Of("PROMO", "Caf\u00e9", "", nil, "").Same(Of("PROMO", "CAFE\u0301", "", nil, "")) {
		t.Error("another content in NFC")
	}
	for i, other := range []Print{
		Of("UPDATE", "Blue Lamp", "Now cheaper", []string{"1", "2"}, ""),
		Of("PROMO", "Blue Lamp Now", "cheaper", []string{"1", "2"}, ""),
		Of("PROMO", "Blue Lamp", "Now cheaper!", []string{"1", "2"}, ""),
		Of("PROMO", "Blue Lamp", "Now cheaper", []string{"2", "1"}, ""),
		Of("PROMO", "Blue Lamp", "Now cheaper", []string{"12", ""}, ""),
		Of("PROMO", "Blue Lamp", "Now cheaper", []string{"1"}, ""),
	} {
		if base.Same(other) {
			t.Errorf("case %d has the same content", i)
		}
	}
}

func TestKeys(t *testing.T) {
	of := func(key, message string) Print { return Of("PROMO", "Blue lamp", message, nil, key) }
	if !of("a", "x").SameKey(of("a", "y")) || of("a", "x").SameKey(of("b", "x")) || of("", "x").SameKey(of("", "x")) {
		t.Error("keys")
	}
	// Texts at a distance of 4 to 12 bits are near with equal keys only.
	met := 0
	for i := range 2000 {
		a, b := of("a", "garden "+names(i)+" and more"), of("a", "garden "+names(i+1)+" and more")
		distance := bits.OnesCount64(a.simhash ^ b.simhash)
		if distance <= simhashDistance || distance > simhashKeyDistance {
			continue
		}
		met++
		b.core, b.key = b.core^1, 0
		if isNear(a, b) {
			t.Fatalf("distance %d without equal keys", distance)
		}
		b.key = a.key
		if measure, ok := a.Near(b); !ok || measure != "simhash" {
			t.Fatalf("distance %d with equal keys: %v %s", distance, ok, measure)
		}
	}
	if met == 0 {
		t.Error("no such texts")
	}
}

func names(i int) string {
	return string([]byte{'x', byte('a' + i%26), byte('a' + i/26%26), byte('a' + i/676%26)})
}

// The simhash needs a text of eight features, with equal dedupe_keys none.
func TestFeatures(t *testing.T) {
	for _, tc := range []struct {
		text     string
		features uint8
	}{{"", 0}, {"👟 !", 0}, {"lamp", 1}, {"blue lamp", 3}, {"one two three four five", 9}, {strings.Repeat("a b ", 100), 255}} {
		if p := Of("PROMO", "", tc.text, nil, ""); p.features != tc.features {
			t.Errorf("%.20q has %d features, want %d", tc.text, p.features, tc.features)
		}
	}
	for _, text := range []string{"vase", "mug vase jar"} { // no words of the lexicon
		for key, want := range map[string]bool{"": false, "k": true} {
			a, b := Of("PROMO", text, "", nil, key), Of("PROMO", text, "", nil, key)
			a.core, b.core = 0, 0
			if isNear(a, b) != want {
				t.Errorf("%q with key %q: %v", text, key, !want)
			}
		}
	}
}

// drawText draws texts of words, numbers and signs in several scripts.
func drawText(r *rapid.T, label string) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
		"order", "Shoes", "off", "today", "Anna", "the", "NORDWIND", "SUMMER", "not", "to", "靴", "全品", "オフ", "本日限り", "скидка", "обувь",
		"خصم", "1001", "1001-A", "4,99", "50%", "10:30", "٢٠", "２０", "三", "A12", "2", "3", "€", "$", "-", ",", "1.", "½", "x2", "👟", "\u0301", "\xff", "É", "ß",
	}), 0, 14).Draw(r, label), " ")
}

// digitTokens returns the runs of digits of a text, sorted: a naive form that knows less
// than the guard.
func digitTokens(texts ...string) (all []string) {
	latin := strings.Map(func(c rune) rune {
		if unicode.IsDigit(c) {
			return '0' + digitOf(c)
		}
		return c
	}, strings.Join(texts, " "))
	all = regexp.MustCompile(`[0-9]+`).FindAllString(latin, -1)
	slices.Sort(all)
	return all
}

// Texts whose tokens with digits differ are never near, nor are those of another kind
// or identity.
func TestDigitsGuard(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		title, message := drawText(r, "title"), drawText(r, "message")
		a := Of("PROMO", title, message, []string{"x"}, "key")
		changed := message + " " + drawText(r, "more")
		if rapid.Bool().Draw(r, "number") {
			at := rapid.IntRange(0, len(message)).Draw(r, "at")
			changed = message[:at] + rapid.SampledFrom([]string{"7", " 17 ", "٣", " 9-B"}).Draw(r, "digits") + message[at:]
		}
		b := Of("PROMO", title, changed, []string{"x"}, "key")
		if !slices.Equal(digitTokens(title, message), digitTokens(title, changed)) && isNear(a, b) {
			r.Fatalf("%q is near to %q", message, changed)
		}
		for _, other := range []Print{
			Of("UPDATE", title, message, []string{"x"}, "key"), Of("PROMO", title, message, []string{"y"}, "key"),
			Of("PROMO", title, message, []string{""}, "key"), Of("PROMO", title, message, []string{"x", "x"}, "key"),
		} {
			if isNear(a, other) {
				r.Fatalf("%q is near with another kind or identity", message)
			}
		}
	})
}

// Near is symmetric; a text with some evidence is near to itself.
func TestNearIsSymmetric(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		words := rapid.SampledFrom([]string{"order", "shipped", "shoes", "off", "blue", "not", "lamp", "table", "chair", "20%", "1001"})
		text := func(label string) string {
			return strings.Join(rapid.SliceOfN(words, 3, 9).Draw(r, label), " ")
		}
		identity := []string{rapid.SampledFrom([]string{"", "1"}).Draw(r, "identity")}
		a, b := Of("PROMO", text("a"), text("b"), identity, "k"), Of("PROMO", text("c"), text("d"), identity, "k")
		for _, q := range []Print{a, b} {
			one, ok := a.Near(q)
			other, back := q.Near(a)
			if one != other || ok != back || q == a && !ok {
				r.Fatalf("%v %s, %v %s", ok, one, back, other)
			}
		}
	})
}

// The guard's tokens: what a token with digits is, and what it is not.
func TestTokensWithDigits(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"1001-A", "1001-B", false},
		{"1001-A", "1001 A", false},
		{"A-1001", "B-1001", false},
		{"4,99", "4 99", false},
		{"4,99", "499", false},
		{"(4,99)", "4,99.", true},
		{"1001, shipped", "1001 shipped", true},
		{"1001.Shipped", "1001 shipped", true},
		{"10:30", "10-30", false},
		{"½", "1/2", false}, // careful: the forms are not taken for one another
		{"½", "¼", false},
		{"①", "1", true},
		{"１００", "100", true},
		{"१००", "100", true},
		{"𝟙𝟘𝟘", "100", true},
		{"5%", "5", false},
		{"5 %", "5%", true},
		{"5٪", "5%", true},
		{"5 €", "€5", true},
		{"5 €", "5 £", false},
		{"LH400", "LH 400", false},
		{"三", "五", false},
		{"use ABCDEF", "use ABCDEG", false},
		{"use ABCDEF", "use abcdef", false},
		{"BIG NEWS here", "BIG WORDS here", true}, // a loud voice
		{"ALL LOUD: ABCDEF", "all loud: abcdef", true},
		{"SALE here now", "Sale here now", true}, // a word of the lexicon
	} {
		a, b := Of("PROMO", tc.a, "", nil, ""), Of("PROMO", tc.b, "", nil, "")
		if (a.guard == b.guard) != tc.same {
			t.Errorf("%q and %q: the same guard %v, want %v", tc.a, tc.b, !tc.same, tc.same)
		}
	}
}

// A state is a word that near texts have in common, also in long texts.
func TestStates(t *testing.T) {
	long := strings.Repeat("and so the story of the blue lamp went on and on ", 12)
	of := func(text string) Print { return Of("UPDATE", "Blue lamp", long+text, []string{"1"}, "key") }
	for _, tc := range []struct {
		a, b string
		near bool
	}{
		{"shipped", "delivered", false},
		{"shipped", "dispatched", true},
		{"shipped", "", true},
		{"shipped", "not shipped", false},
		{"monday", "friday", false},
		{"Zugestellt", "delivered", true},
	} {
		if isNear(of(tc.a), of(tc.b)) != tc.near {
			t.Errorf("%q and %q: near %v, want %v", tc.a, tc.b, !tc.near, tc.near)
		}
	}
}

// In a full bitmap most words meet by chance, so long texts do not overlap.
func TestOverlap(t *testing.T) {
	for _, tc := range []struct {
		a, b [2]uint64
		want bool
	}{
		{[2]uint64{1<<40 - 1, 1<<40 - 1}, [2]uint64{1<<40 - 1, 1<<40 - 1}, true},
		{[2]uint64{1<<41 - 1, 1<<40 - 1}, [2]uint64{1<<40 - 1, 1<<40 - 1}, false},
		{[2]uint64{0, 0b11}, [2]uint64{0, 0b11}, false},
		{[2]uint64{1, 0b11}, [2]uint64{1, 0b11}, true},
		{[2]uint64{1, 0b11}, [2]uint64{1, 0b11111}, true},
		{[2]uint64{1, 0b11}, [2]uint64{3, 0b11111}, false},
		{[2]uint64{1, 0b11}, [2]uint64{0, 0b111}, false},
		{[2]uint64{0, 0b11111}, [2]uint64{0, 0b1110011}, true},
		{[2]uint64{0, 0b11111}, [2]uint64{0, 0b1111100}, true},
		{[2]uint64{0, 0b11111}, [2]uint64{0, 0b11111000}, false},
	} {
		if overlap(tc.a, tc.b) != tc.want || overlap(tc.b, tc.a) != tc.want {
			t.Errorf("%b and %b: overlap %v, want %v", tc.a, tc.b, !tc.want, tc.want)
		}
	}
}

func TestLexiconRefused(t *testing.T) {
	for _, file := range []string{"no group", "-: ", "a: one, two\nb: one", "-: 20 off", "-: !", strings.Repeat("!x: x\n", 1) + states(40)} {
		if _, err := readLexicon(file); err == nil {
			t.Errorf("%.30q was read", file)
		}
	}
	if _, err := readLexicon(wordsFile); err != nil {
		t.Error(err)
	}
}

func states(n int) (file string) {
	for i := range n {
		file += "!" + names(i) + ": " + names(i) + "\n"
	}
	return file
}

func TestCodec(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := Of(drawText(r, "kind"), drawText(r, "title"), drawText(r, "message"), []string{drawText(r, "identity")}, drawText(r, "key"))
		b := p.Append([]byte("before"))
		q, rest, err := Read(append(b, "after"...)[6:])
		if err != nil || q != p || string(rest) != "after" || len(b) != 6+Size {
			r.Fatalf("%v became %v, %q, %v", p, q, rest, err)
		}
		if _, _, err := Read(b[6 : len(b)-1]); err == nil {
			r.Fatal("a fingerprint that is cut off was read")
		}
		b[len(b)-1] = 2
		if _, _, err := Read(b[6:]); err == nil {
			r.Fatal("a faulty fingerprint was read")
		}
	})
}

// Any bytes have a fingerprint, and it is near or equal to itself only under its own
// guard.
func FuzzOf(f *testing.F) {
	f.Add("Order 1001-A shipped", "４,９９ € 靴が全品20%オフ", "k")
	f.Add("\xff\xfe1\u0301", "don't miss \u0301 ß ı ς İ", "")
	f.Add("三三", "1-1-", "\x00")
	f.Fuzz(func(t *testing.T, title, message, key string) {
		p := Of("PROMO", title, message, []string{key}, key)
		if !p.Same(Of("PROMO", title, message, []string{key}, "")) {
			t.Error("another content")
		}
		if q, _, err := Read(p.Append(nil)); err != nil || q != p {
			t.Error("another binary form")
		}
		if key != "" && !isNear(p, p) {
			t.Error("not near to itself")
		}
		if isNear(p, Of("PROMO", title, message+" 7", []string{key}, key)) {
			t.Error("near with another number")
		}
	})
}

var benchTexts = map[string][2]string{
	"Short": {"20% off all running shoes", "Only this weekend: save 20% with code SPRING20."},
	"Long":  {"News from the workshop", strings.Repeat("This month we show how our chairs are made by hand. ", 18)},
	"Han":   {"鞋子全场8折", "最后机会：冬季外套大促，立即抢购，不要错过。"},
}

func BenchmarkOf(b *testing.B) {
	for name, text := range benchTexts {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Of("PROMO", text[0], text[1], []string{"", "1001"}, "key")
			}
		})
	}
}

// One event is compared with 64 marks.
func BenchmarkNear(b *testing.B) {
	for name, of := range map[string]func(i int) Print{
		"OtherNumbers": func(i int) Print { return Of("PROMO", "Order shipped", names(i)+"1", nil, "") },
		"OtherWords":   func(i int) Print { return Of("PROMO", "Summer sale on everything at "+names(i), "", nil, "") },
		"OneIdentity": func(i int) Print {
			return Of("PROMO", "Summer sale on everything at "+names(i), names(i+1)+" "+names(i+2)+" "+names(i+3)+" "+names(i+4), []string{"1"}, "")
		},
	} {
		b.Run(name, func(b *testing.B) {
			var marks [64]Print
			for i := range marks {
				marks[i] = of(i)
			}
			p := of(1000)
			found := 0
			for b.Loop() {
				for i := range marks {
					if isNear(p, marks[i]) {
						found++
					}
				}
			}
			if found > 0 {
				b.Error("one was near")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(marks)), "ns/mark")
		})
	}
}
