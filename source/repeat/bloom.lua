-- Adds events to the newest generation of the filter. It may run again with the same
-- events: what is in the generation already is not counted twice.
-- KEYS[1] the hash. ARGV: capacity in events, fill at which a generation closes (parts of
-- 10000), milliseconds for which a closed one is readable, k, and per event the hash of its
-- block and its k bits. Returns the hash as it is now.
local capacity, full, window, k = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local name = function(g) return KEYS[1] .. ':' .. g end

-- Generations whose key is gone, by age or by eviction, are read no more.
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local g = string.match(field, '^blocks:(%d+)$')
  if g and redis.call('EXISTS', name(g)) == 0 then
    redis.call('HDEL', KEYS[1], 'blocks:' .. g, 'items:' .. g, 'capacity:' .. g)
  end
end

local current = redis.call('HGET', KEYS[1], 'current')
local blocks = current and tonumber(redis.call('HGET', KEYS[1], 'blocks:' .. current))
local items = blocks and tonumber(redis.call('HGET', KEYS[1], 'items:' .. current)) or 0
local holds = blocks and tonumber(redis.call('HGET', KEYS[1], 'capacity:' .. current)) or capacity

for i = 5, #ARGV, k + 1 do
  if not blocks or items * 10000 >= holds * full then
    if blocks then
      redis.call('HSET', KEYS[1], 'items:' .. current, items)
      redis.call('PEXPIRE', name(current), window)
    end
    -- The key first: a script that ends here for lack of memory has opened nothing.
    local opened = string.format('%d', (tonumber(current) or 0) + 1)
    blocks, items, holds = math.ceil(capacity * 89 / 2048), 0, capacity
    redis.call('DEL', name(opened))
    redis.call('SETRANGE', name(opened), blocks * 64 - 1, '\0')
    redis.call('HSET', KEYS[1], 'current', opened, 'blocks:' .. opened, blocks, 'items:' .. opened, 0, 'capacity:' .. opened, holds)
    current = opened
  end
  local first, set = (tonumber(ARGV[i]) % blocks) * 512, {'BITFIELD', name(current)}
  for j = 1, k do
    set[#set + 1] = 'SET'
    set[#set + 1] = 'u1'
    set[#set + 1] = string.format('%d', first + tonumber(ARGV[i + j]))
    set[#set + 1] = '1'
  end
  for _, was in ipairs(redis.call(unpack(set))) do
    if was == 0 then
      items = items + 1
      break
    end
  end
end
if blocks then
  redis.call('HSET', KEYS[1], 'items:' .. current, items)
end
return redis.call('HGETALL', KEYS[1])
