-- A link for another address each time, all of the same length, so that every answer is.
local number = 1000000
local head = "POST /users/log-in HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 203.0.113.9\r\n"
  .. "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 34\r\n\r\nemail=person"

function request()
  number = number + 1
  return head .. number .. "@school.example"
end
