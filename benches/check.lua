-- What Caddy asks for a page of an app, on behalf of somebody who is signed in.
wrk.path = "/auth/check"
wrk.headers["Accept"] = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
wrk.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
wrk.headers["X-Forwarded-Host"] = "app.school.example"
wrk.headers["X-Forwarded-Method"] = "GET"
wrk.headers["X-Forwarded-Proto"] = "https"
wrk.headers["X-Forwarded-Uri"] = "/courses?page=2"
wrk.headers["Cookie"] = "doorpost_session=a4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4dqobyha4dq"
