# keyfold: the commands of everyday work. `make check` needs Go only. `make test` needs
# a C compiler, for the race detector, and the servers that tests start: it installs
# what is missing.

GO       ?= go
BIN      := $(CURDIR)/.bin
PACKAGES := ./...
# Folders with real event logs (*/events.ndjson.gz) beside the checkout; tests
# read them where they are.
LOG := $(firstword $(wildcard $(abspath ..)/*/data/*/events.ndjson.gz))
KEYFOLD_TEST_DATA ?= $(if $(LOG),$(abspath $(dir $(LOG))..))
export KEYFOLD_TEST_DATA

# The race detector leaves alone what has no goroutines and takes several times as long
# with it: SQLite, which is C translated to Go, and parsers. What only a
# debugger reads is left out: it takes a fourteenth of the compiler's time, a seventh of
# the linker's. With the detector come checks of unsafe pointers, which take a thirtieth of the
# tests' time: keyfold's own code keeps them.
RACE := -race '-gcflags=all=-dwarf=false -d=checkptr=0' '-gcflags=keyfold/...=-dwarf=false' '-ldflags=-s -w' \
  $(foreach p,modernc.org/sqlite/lib modernc.org/libc/... modernc.org/memory github.com/alecthomas/kong regexp \
  github.com/pressly/goose/v3/internal/sqlparser github.com/go-json-experiment/json/jsontext golang.org/x/text/unicode/norm,-gcflags=$(p)="-race=false -dwarf=false")
# Tests mostly wait, for windows, delays and servers: more run at once than there are
# processors.
AT_ONCE := -p=4 -parallel=4
# The race detector would have each of 80 programs sleep for a second at its end.
export GORACE ?= atexit_sleep_ms=0
# Compilers and tests collect garbage a quarter as often: 1 s of processor time in 6, for
# memory that the machine has.
export GOGC ?= 400
PROGRESS := $(GO) run ./bench/progress
SERVERS  := keyfold/internal/testserver
COMMA    := ,

# Tests run on the machine's RabbitMQ, and those of what only RabbitMQ 4 does on the one
# that .ci/rabbitmq4 unpacks. RABBITMQ=4 runs all of them on that one.
ifeq ($(RABBITMQ),4)
  export KEYFOLD_TEST_RABBITMQ := $(or $(KEYFOLD_TEST_RABBITMQ),$(shell .ci/rabbitmq4),$(error RabbitMQ 4 could not be unpacked))
else ifneq ($(RABBITMQ),)
  $(error RABBITMQ is "$(RABBITMQ)": it must be 4, or not set for the machine's RabbitMQ)
endif

.PHONY: run check test test-race test-long test-rabbitmq4 lint unreachable bench soak soak-sim histories mutations fuzz needs

run:
	$(GO) run ./cmd/keyfold-lite

# The quick part: formatting, vet, and without the race detector the packages whose
# tests start no server, or with RABBITMQ=4 none but that.
check:
	@unformatted=$$(gofmt -l .) && [ -z "$$unformatted" ] || { echo "gofmt -w $$unformatted"; exit 1; }
	$(GO) vet $(PACKAGES)
	KEYFOLD_SIM_SCHEDULES=200 KEYFOLD_SIM_DEEPS=20 KEYFOLD_SIM_NOTIFY_SCHEDULES=200 \
	  $(PROGRESS) --name check --without $(if $(RABBITMQ),,$(SERVERS)/rabbittest$(COMMA)$(SERVERS)/sitetest$(COMMA))$(SERVERS)/sqltest,$(SERVERS)/pgtest,$(SERVERS)/redistest \
	  -- -count=1 -vet=off $(AT_ONCE) $(PACKAGES)

# All but the long runs. Vet is part of `make check` and of `make lint`. The two programs' own tests run
# many processes and servers beside what runs in goroutines: they take twice as long with
# the race detector, and run with it in make test-race.
PROGRAMS := ./cmd/keyfold ./cmd/keyfold-lite
test: needs
	$(PROGRESS) --name test --share --without $(subst $() ,$(COMMA),$(PROGRAMS:./%=keyfold/%)) \
	  -- $(RACE) -count=1 -vet=off -timeout=40m $(AT_ONCE) '-skip=$(subst $() ,,$(ONLY_LONG)|$(COMPUTING))' $(PACKAGES)
	$(PROGRESS) --name programs --share -- -ldflags='-s -w' -count=1 -vet=off -timeout=20m -parallel=12 '-skip=$(subst $() ,,$(ONLY_LONG)|$(ONLY_RACE))' $(PROGRAMS)
	$(PROGRESS) --name schedules -- -ldflags='-s -w' -count=1 -vet=off ./proof/sim ./proof/notifysim ./proof/streamsim
	$(PROGRESS) --name computing -- -ldflags='-s -w' -count=1 -vet=off -timeout=10m $(AT_ONCE) '-run=$(subst $() ,,$(COMPUTING))' $(COMPUTING_PACKAGES)

# The programs' own tests with the race detector, and those of ONLY_RACE. A part of .ci/run.
test-race: needs
	$(PROGRESS) --name race --share -- $(RACE) -count=1 -vet=off -timeout=40m -parallel=10 '-skip=$(subst $() ,,$(ONLY_LONG)|$(COMPUTING))' $(PROGRAMS)

# The tests of the code that speaks AMQP, on RabbitMQ 4 with what later versions bring:
# Khepri, and no deprecated feature. Then the client of the stream protocol beside RabbitMQ's
# own library, which only that module depends on.
ON_RABBITMQ4 ?= ./source/rabbit/... ./source/stream/... ./service/profile/pipeline ./service/profile/worker ./service/daemon ./service/profile/partitioner
test-rabbitmq4: needs
ifneq ($(RABBITMQ),4)
	@$(MAKE) --no-print-directory $@ RABBITMQ=4
else
	@echo "On RabbitMQ 4 from $$KEYFOLD_TEST_RABBITMQ:"
	KEYFOLD_TEST_RABBITMQ_STRICT=1 $(PROGRESS) --name rabbitmq4 -- -count=1 -vet=off -timeout=10m $(AT_ONCE) $(ON_RABBITMQ4)
	cd tools/conformance && $(GO) test -count=1 -timeout=10m ./...
endif

# What computes for long under the race detector is in the later steps of make test, without
# it: in one goroutine, or in those that other tests of the package run under it. Of the
# schedules a share is in both. The whole suite of stores has the race detector once for
# each kind of store, not for each of its forms.
COMPUTING := ^TestRealLogsEqualTheSlowWay$$|^TestRealLogsThroughTheEndpoint$$|^TestKinds$$|^TestVerdictsFollowTheLog$$|^TestTablesFollowFreshness$$|\
^TestFindsThePlantedHalfLife$$|^TestTooManyProductsAskFewerUsers$$|^TestEqualsTheSlowWay$$|^TestNothingIsKnownTooEarly$$|\
^TestEvalAnswersInOneCommand$$|^TestConformanceSharded$$|^TestConformanceOfBinaryVectors$$|\
^TestManyDecisions$$|^TestSimulationInMemory$$|^TestRecall$$|^TestOwnTypesEqualTheSum$$|^TestPopularityInALargeCatalogue$$|\
^TestEvalEndpoint$$|^TestProductTimesOfMany$$|^TestRandomHistories$$|^TestSearchEqualsALoop$$|^TestCodesAfterChanges$$|\
^TestReplay$$|^TestU2QuietHoursInNightsOfChange$$|^TestTasteMovesNoOtherStage$$|^TestParkedCopyAndRedeliveredOriginal$$|^TestParkingRenewsTheBound$$|^TestScripts$$|^TestHelpShowsTheSettingsACommandUses$$|^TestHelpAlwaysAnswers$$|\
^TestHostileTexts(Of[A-Za-z]+)?AreInert$$|^TestAFullIndexStaysWithinItsBound$$|^TestTheIndexIsBounded$$|^TestHybridFindsWhatSessionsSay$$|^TestWeightsAreChosen$$|^TestTheGridIsKeptWithoutDecay$$|\
^TestReplaysOf.*KeepTheLaws$$|^TestSimulation$$|^TestHeldBytesAreReckonedAsTheyAre$$|^TestACandidateHasNoEffect$$|^TestAReplayDoesNotDependOnItsGroups$$|\
^TestNearDuplicates$$|^TestParseEventAgreesWithReference$$|^TestQuickReadingAgreesWithTheStrictOne$$|^TestNoIDYoungerThanTheHorizonIsDropped$$|^TestRecordJSON$$|\
^TestRetiredWordsStayAway$$|^TestOnlyProgramsNameVariablesAndCommands$$|\
^TestModelsRules$$|^TestAllTransitions$$|^TestEventsAreInOrderAndWithinTheSpan$$|^TestFullCapacity$$|^TestEqualsAnEvaluation$$|\
^TestNotifySimulate$$|^TestNotifyKeepsTheLaws$$|^TestNotifyU2QuietHoursWhenClocksChange$$|^TestExplainAddsUp$$|^TestExplainByOtherSettings$$
COMPUTING_PACKAGES := ./service/profile/evaluation ./service/profile/answers ./service/profile/recommend ./source/catalog/index ./proof/oracle ./engine/profile/eval ./service/notify/simulate \
  ./sink/mongodb ./engine/notify ./engine/profile/processor ./internal/cli ./service/dashboard ./proof/notifyoracle/history ./source/stream/reader ./engine/notify/processor \
  ./source/sample/notifications ./engine/profile ./docs ./engine/notify/quiet ./source/repeat

# What proves by volume, by long outages or by building programs anew has no place in make
# test. These run in make test-long alone, without the race detector:
ONLY_LONG := ^TestAlertsFireByTheirFaults$$|^TestAlertsOfNotificationsAndStages$$|^TestAlertsOfStreams$$|NoSecretOf|\
^TestStoreAwayPastTheConsumerTimeout$$|^TestIngestDatabaseKilled$$|^TestIngestWhileTheBrokerIsAway$$|\
^TestBrokerRestartInMidWindowOfQuorumQueues$$|^TestOutageLeavesMemoryFlat$$|^TestEdge_QueueGrows|^TestEdge_Hundreds|^TestLimit_LargeBodies|\
^TestShort.*Soak$$|^TestEveryFailpoint$$|^TestFloodedUser$$|^TestScenariosOfTheStore$$|^TestReleaseBinaryHasNoFailpoints$$|\
^TestRelease$$|^TestDockerfileBuildsTheSame$$|^TestScaleMeasurements$$|^TestNotifyMeasurements$$|\
^TestLearnFromMany$$|^TestKill9$$|^TestRelayKill9$$|^TestStreamRelayKill9$$|^TestStreamBrokerKill9$$|^TestStreamClusterKill9$$|^TestStrictBroker$$
# These tests of the programs run in make test-race alone: they prove by volume, or bring about one
# fault of a server after another and wait for what is said of each.
ONLY_RACE := ^TestDashboardKilledWhileItRetries$$|^TestDashboardOfManyDecisions$$|^TestManyViewers$$|\
^TestDashboardNamesBrokerAndHotUser$$|^TestAlertsReadWhatProgramsTell$$|^TestStatusNamesEachFault$$
# And these run in a short form in make test or make test-race, in the long one in make
# test-long, without the race detector ten times as much in the time. `make soak` runs the other long forms too.
LONG ?= PartitionKill9$$|OpenWindows$$|Kill9WhilePosting$$|\
^TestBrokerRestartInMidWindow|^TestOneViewOfFailures$$|^TestDashboardKilledWhileItRetries$$|^TestDashboardOfManyDecisions$$|^TestManyViewers$$|^TestFailedArchive$$|^TestForgetErases|^TestHistoryPrune$$|\
^TestIngestStory|^TestOutboxStats|^TestOutboxFailed|^TestLearn$$|^TestHeadersOfARequest|^TestRelayedCopies|^TestSetupMakesTheTables|\
^TestShutdownEndsInTime$$|^TestIngestHostileCorpus$$|^TestMetricsAgreeWithTheOracle$$|\
^TestRebuildWhileStreamsAreRead$$|^TestRecordsNameThePreferencesInForce$$|^TestDecisionsBesideAHungServer$$|^TestSimulationInPostgres$$|\
^TestEventsHaveOneQueueWhile|^TestPartitionsOfAnEarlier|^TestSetupsThatAreKilled$$|^TestSetupWhoseNotes|^TestSlotsHaveOnePartition$$
LONG_PACKAGES := ./cmd/keyfold ./cmd/keyfold-lite ./service/profile/pipeline ./deploy/release ./engine/failpoint ./source/rabbit/... ./internal/testserver/rabbittest \
  ./service/notify/score ./service/notify/simulate ./service/notify/notifier
test-long: needs
	KEYFOLD_SOAK=1 $(PROGRESS) --name long -- -count=1 -vet=off -timeout=20m $(AT_ONCE) '-run=$(subst $() ,,$(ONLY_LONG)|$(LONG))' $(LONG_PACKAGES)
	KEYFOLD_SOAK=1 $(PROGRESS) --name long-stores -- -count=1 -vet=off -timeout=20m $(AT_ONCE) '-run=^TestConformance$$|^TestContention$$|^TestUnknown$$' ./sink/ledger/memory ./sink/ledger/postgres ./sink/ledger/sqlite ./sink/mongodb
	KEYFOLD_SOAK=1 $(PROGRESS) --name long-processes -- -count=1 -vet=off -timeout=30m -p=1 ./bench ./proof/soak

needs:
	@./.ci/needs

lint: $(BIN)/golangci-lint unreachable
	$(BIN)/golangci-lint run $(PACKAGES)
	$(BIN)/golangci-lint fmt --diff

# Functions that neither program can reach. tools/unreachable.txt lists those that stay.
unreachable: $(BIN)/deadcode
	@$(BIN)/deadcode -f '{{$$p := .Path}}{{range .Funcs}}{{println}}{{$$p}}.{{.Name}}{{end}}' ./cmd/... >$(BIN)/unreachable.txt
	@grep -v '^#' tools/unreachable.txt | LC_ALL=C sort >$(BIN)/unreachable.want
	@sed '/^$$/d' $(BIN)/unreachable.txt | LC_ALL=C sort | diff $(BIN)/unreachable.want - || \
	  { echo "> is a function that no program reaches: remove it. < is one that has a caller or is gone: remove its line from tools/unreachable.txt"; exit 1; }

$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	cd tools && GOFLAGS=-mod=mod $(GO) build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BIN)/deadcode: tools/go.mod tools/go.sum
	cd tools && GOFLAGS=-mod=mod $(GO) build -o $@ golang.org/x/tools/cmd/deadcode

# Ratios within one run are what counts: machines are noisy.
bench:
	$(GO) test -run '^$$' -bench . -benchtime 300ms -cpu 1 ./engine/... ./shard ./source/... ./sink/...
	$(GO) run ./bench engine

# The long runs, each bounded; `make test` runs a short form of each.
SOAK_TIME ?= 45m
SCENARIO_TIME ?= 2m
PARTITIONS_TIME ?= 15m
SCENARIOS ?= kills silent paused live unknown refusals oversized unreadable
soak:
	$(GO) run ./proof/soak --duration $(SOAK_TIME) --workers 3
	$(GO) run ./proof/soak --duration $(SOAK_TIME) --workers 3 --streams 8
	$(GO) run ./proof/soak --directed --workers 1
	$(GO) run ./proof/soak notify --duration $(SOAK_TIME)
	$(GO) run ./proof/soak partitions --duration $(PARTITIONS_TIME)
	$(GO) run ./proof/soak --scenario broker --queue-type quorum --kills 25 --duration 20m --rate 100 --workers 3
	for s in $(SCENARIOS); do $(GO) run ./proof/soak --scenario $$s --duration $(SCENARIO_TIME) --rate 200 || exit 1; done
	KEYFOLD_SOAK=1 $(GO) test $(RACE) -count=1 -timeout 40m ./cmd/... ./engine/... ./shard/... ./source/...
	$(MAKE) test-long
	$(MAKE) fuzz FUZZTIME=2m

# A million schedules in virtual time, some deep ones (with the real store's client),
# 100,000 of notifiers and 200,000 of streams, or as many of each as SIM_TIME allows. A failing one is
# named and replayed by its number.
SIM_SCHEDULES ?= 1000000
SIM_FIRST     ?= 1
SIM_DEEPS     ?= 50000
SIM_NOTIFY    ?= 100000
SIM_STREAM    ?= 200000
SIM_TIME      ?= 2h
soak-sim:
	KEYFOLD_SIM_SCHEDULES=$(SIM_SCHEDULES) KEYFOLD_SIM_DEEPS=$(SIM_DEEPS) KEYFOLD_SIM_FIRST=$(SIM_FIRST) KEYFOLD_SIM_TIME=$(SIM_TIME) \
	  $(GO) test -count=1 -timeout 0 -v -run 'Schedules$$' ./proof/sim
	KEYFOLD_SIM_NOTIFY_SCHEDULES=$(SIM_NOTIFY) KEYFOLD_SIM_FIRST=$(SIM_FIRST) KEYFOLD_SIM_TIME=$(SIM_TIME) \
	  $(GO) test -count=1 -timeout 0 -v -run 'Schedules$$' ./proof/notifysim
	KEYFOLD_SIM_STREAM_SCHEDULES=$(SIM_STREAM) KEYFOLD_SIM_FIRST=$(SIM_FIRST) KEYFOLD_SIM_TIME=$(SIM_TIME) \
	  $(GO) test -count=1 -timeout 0 -v -run 'Schedules$$' ./proof/streamsim

# A million random histories of notifications, each decided by the laws and by the
# oracle. One that differs is named and shown by its number.
HISTORIES ?= 1000000
histories:
	$(GO) run ./bench notify histories --count $(HISTORIES)

# Takes one rule at a time out of a copy of the tree: each must be noticed.
mutations:
	$(GO) run ./proof/mutations
	$(GO) run ./proof/mutations --by notify
	$(GO) run ./proof/mutations --by tests

# The manifests on Kubernetes' own API server and autoscaler, with KEDA and a RabbitMQ.
.PHONY: cluster
cluster: needs
	.ci/kubernetes scaling

# docker-compose.yml on an engine of its own, as root.
.PHONY: compose
compose:
	@.ci/compose

FUZZTIME ?= 20s
fuzz:
	@for p in $$($(GO) list -f '{{.Dir}}' $(PACKAGES)); do \
	  for f in $$(grep -ho '^func Fuzz[A-Za-z0-9]*' $$p/*_test.go 2>/dev/null | sed 's/func //'); do \
	    echo "$$f in $$p"; (cd $$p && $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) .) || exit 1; \
	  done; \
	done

# Archives of static programs, their SBOMs and SHA256SUMS, in dist/. Clones of the same
# commit give the same bytes with the same release of Go.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
.PHONY: release
release:
	rm -rf dist
	$(GO) run ./deploy/release --version $(VERSION)
