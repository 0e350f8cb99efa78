-- A link for another address each time, asked for from another network each time: under the usual ceilings.
local number = 1000000
local head = "POST /users/log-in HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 10.%d.%d.%d\r\n"
  .. "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 34\r\n\r\nemail=person%d@school.example"

function request()
  number = number + 1
  return head:format(math.floor(number / 65536) % 256, math.floor(number / 256) % 256, number % 256, number)
end
